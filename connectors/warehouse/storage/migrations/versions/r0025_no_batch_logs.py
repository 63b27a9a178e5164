"""Workers return their pages to the run: there are no logs in a shared store."""

from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Drop the table `batch_logs`."""
    op.drop_table("batch_logs", schema="ops")
