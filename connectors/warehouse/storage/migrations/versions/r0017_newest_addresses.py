"""The comments of media URL columns: the URLs are the newest ones."""

from alembic import op

revision = "0017"
down_revision = "0016"

_COMMENT = "Address of the picture or film as it was last received; a signature in it expires."


def upgrade() -> None:
    """Replace the comments; no row changes."""
    for table in ("media", "media_children"):
        op.execute(f"COMMENT ON COLUMN core.{table}.media_url IS '{_COMMENT}'")
