"""A scan counts its rejected records, so that one that rejects most of them is not complete."""

from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Add `ops.checkpoints.rejected`."""
    op.execute("ALTER TABLE ops.checkpoints ADD COLUMN rejected BIGINT")
