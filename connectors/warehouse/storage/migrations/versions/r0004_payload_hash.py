"""Media get a hash of the payload as it came: what comes again byte by byte need not be read."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add a column to media; it stays empty until a row is written, and such a row is compared by its digest."""
    op.add_column(
        "media",
        sa.Column(
            "payload_hash",
            sa.BIGINT,
            comment="Hash of the payload as it came: one that is equal need not be read.",
        ),
        schema="core",
    )
