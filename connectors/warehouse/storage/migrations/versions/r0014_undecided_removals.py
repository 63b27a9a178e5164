"""A scan that rejected records removes nothing: the items it missed, and since when they are undecided, are stored."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add a column to the last complete scans; allow missing items without a time at which a scan first missed them."""
    op.add_column(
        "walks",
        sa.Column(
            "removals_undecided_since",
            sa.TIMESTAMP(timezone=True),
            comment="Since when scans that rejected records have missed items, which are not marked as removed;"
            " NULL while none is so.",
        ),
        schema="core",
    )
    op.execute("ALTER TABLE ops.missing ALTER COLUMN since DROP NOT NULL")
    op.execute(
        "COMMENT ON COLUMN ops.missing.since IS"
        " 'When a complete scan without rejected records first missed it; NULL while none has.'"
    )
    op.execute(
        "COMMENT ON TABLE ops.missing IS"
        " 'Items that a complete scan missed and another one has yet to confirm, or to decide on, as removed.'"
    )
    op.execute(
        "COMMENT ON TABLE ops.seen IS"
        " 'What scans that are not complete have seen in merged pages; media_id is empty for rejected records.'"
    )
