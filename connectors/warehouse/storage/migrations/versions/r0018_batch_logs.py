"""Workers may scan batches; their pages are in logs in a shared store."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add the table `batch_logs`."""
    op.create_table(
        "batch_logs",
        sa.Column("run_sequence", sa.BIGINT, comment="The run in the shared store, from 1."),
        sa.Column("batch", sa.BIGINT, comment="The batch of that run, from 1; 0 stands for the run itself."),
        sa.Column("entries", sa.BIGINT, comment="How many entries of its log are merged."),
        sa.Column("is_closed", sa.BOOLEAN, nullable=False, comment="Whether its last entry is merged."),
        schema="ops",
        comment="Logs of batches in the shared store, of runs whose batches workers scanned, as far as they are"
        " merged.",
    )
