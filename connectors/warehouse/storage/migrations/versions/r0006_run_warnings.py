"""Runs have warnings, in addition to the outcomes of their partitions."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the table `run_warnings`."""
    op.create_table(
        "run_warnings",
        sa.Column("run_id", sa.VARCHAR, nullable=False, comment="The run."),
        sa.Column(
            "code", sa.VARCHAR, nullable=False, comment="What kind of warning it is; a run has at most one of each."
        ),
        sa.Column("count", sa.BIGINT, nullable=False, comment="How many records, accounts or values it concerns."),
        sa.Column("detail", sa.VARCHAR, nullable=False, comment="What happened, one line."),
        sa.Column("hint", sa.VARCHAR, comment="What to do about it, one line; NULL when there is nothing to do."),
        sa.Column("makes_partial", sa.BOOLEAN, nullable=False, comment="Whether the run is partial because of it."),
        schema="core",
        comment="What a person should know of a run beyond the outcomes of its partitions.",
    )
