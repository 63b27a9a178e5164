"""Checkpoints get a lane, so that a backfill does not change those of a sync; runs get a selection and a reason."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add columns to checkpoints and runs."""
    _checkpoints()
    _runs()


def _checkpoints() -> None:
    op.add_column(
        "checkpoints",
        sa.Column("lane", sa.VARCHAR, comment="Whose progress it is: sync or backfill; neither disturbs the other's."),
        schema="ops",
    )
    # Filled by ALTER, because DuckDB can neither alter a table that the same transaction has updated, nor add a NOT
    # NULL column. All existing checkpoints are of syncs.
    op.execute("ALTER TABLE ops.checkpoints ALTER lane TYPE VARCHAR USING 'sync'")
    op.alter_column("checkpoints", "lane", nullable=False, schema="ops")


def _runs() -> None:
    for column in (
        sa.Column("selection", sa.VARCHAR, comment="What it was asked to walk; NULL: everything."),
        sa.Column("reason", sa.VARCHAR, comment="Why, as the person who asked for it said."),
    ):
        op.add_column("runs", column, schema="core")
