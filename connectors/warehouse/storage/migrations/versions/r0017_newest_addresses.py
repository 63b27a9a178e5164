"""Addresses of media are the newest ones: the comments of their columns say so."""

from alembic import op

revision = "0017"
down_revision = "0016"

_COMMENT = "Address of the picture or film as it was last received; a signature in it expires."


def upgrade() -> None:
    """Replace the comments; no row changes."""
    for table in ("media", "media_children"):
        op.execute(f"COMMENT ON COLUMN core.{table}.media_url IS '{_COMMENT}'")
