"""Media get a hash of the payload: an item that is received again with the same bytes need not be decoded."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add a column to media. It is NULL until a row is written again; until then the row is compared by its digest."""
    op.add_column(
        "media",
        sa.Column(
            "payload_hash",
            sa.BIGINT,
            comment="Hash of the payload as it came: one that is equal need not be read.",
        ),
        schema="core",
    )
