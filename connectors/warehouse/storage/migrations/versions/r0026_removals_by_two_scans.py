"""An item or account is removed if two scans miss it; neither needs anything else."""

from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """Keep when each missing item and account was first missed; an empty catalogue does not count any more."""
    op.execute("ALTER TABLE ops.missing DROP COLUMN needs_full")
    op.execute("ALTER TABLE ops.missing RENAME COLUMN since TO missing_since")
    op.execute("DELETE FROM ops.missing_accounts WHERE missed_from IS NULL")
    op.execute("ALTER TABLE ops.missing_accounts DROP COLUMN missed_from")
    op.execute("ALTER TABLE ops.missing_accounts RENAME COLUMN since TO missing_since")
