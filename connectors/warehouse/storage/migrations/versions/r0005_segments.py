"""Pages land in segment files next to the warehouse, which records the segments that are staged."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table `segments`."""
    op.create_table(
        "segments",
        sa.Column("session", sa.VARCHAR, nullable=False, comment="The process that writes them."),
        sa.Column("number", sa.BIGINT, comment="The segment, from 1; 0 stands for the session itself."),
        schema="ops",
        comment="Segments of landed pages that were taken in, of the last session to write.",
    )
