"""Quarantine contains each record once, with the times at which it was first and last received."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add two columns. The next merge with rejected records fills the digests and combines equal records."""
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
    # Filled by ALTER, because DuckDB can neither alter a table that the same transaction has updated, nor add a NOT
    # NULL column.
    op.execute("ALTER TABLE core.quarantine ALTER last_seen_at TYPE TIMESTAMPTZ USING seen_at")
    op.alter_column("quarantine", "last_seen_at", nullable=False, schema="core")
