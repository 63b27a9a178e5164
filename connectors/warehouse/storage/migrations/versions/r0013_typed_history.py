"""Versions of items have typed columns, like the items themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the columns that every warehouse has. The rebuild fills them, and adds the columns of other fields."""
    for name, kind, comment in (
        ("media_type", sa.VARCHAR, "Kind of media as the API says it, such as IMAGE, VIDEO, CAROUSEL_ALBUM."),
        ("caption", sa.VARCHAR, "The caption as published."),
        ("permalink", sa.VARCHAR, "Address of the item on the social network."),
        ("published_at", sa.TIMESTAMP(timezone=True), "When the item was published."),
        (
            "overflow",
            sa.VARCHAR,
            "JSON, by path: what the item carries in fields that have no column; NULL when it is all in columns.",
        ),
    ):
        op.add_column("media_superseded", sa.Column(name, kind, comment=comment), schema="core")
    # A warehouse with rows without a hash is rebuilt when it is next opened for writing. The rebuild fills the columns
    # of versions from the payloads, and renames fields whose name is that of a fixed column.
    op.execute("UPDATE core.media SET payload_hash = NULL")
