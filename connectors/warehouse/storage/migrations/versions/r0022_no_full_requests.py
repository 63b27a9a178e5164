"""Removes the number of requests that a run did not make."""

from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Drop `core.runs.full_requests`. The view `runs` still names it until the next publish replaces the view."""
    op.execute("ALTER TABLE core.runs DROP COLUMN full_requests")
