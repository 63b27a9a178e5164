"""Quarantine holds each record once, with when it was first and last met."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add two columns; the next merge that meets such a record fills the digest and joins what is one record."""
    op.add_column(
        "quarantine",
        sa.Column("last_seen_at", sa.TIMESTAMP(timezone=True), comment="When it was last met."),
        schema="core",
    )
    op.add_column(
        "quarantine",
        sa.Column("digest", sa.BIGINT, comment="Digest of the content that makes it one record; NULL until computed."),
        schema="core",
    )
    # Filled by ALTER, because DuckDB cannot alter a table that the same transaction has updated, nor add a column
    # that must not be NULL.
    op.execute("ALTER TABLE core.quarantine ALTER last_seen_at TYPE TIMESTAMPTZ USING seen_at")
    op.alter_column("quarantine", "last_seen_at", nullable=False, schema="core")
