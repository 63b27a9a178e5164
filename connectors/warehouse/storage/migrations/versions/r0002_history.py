"""The content and counts of items get a history; children, counts and the mapping get tables."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_INSTANT = sa.TIMESTAMP(timezone=True)


def _item() -> tuple[sa.Column[str], ...]:
    return (
        sa.Column("account_id", sa.VARCHAR, nullable=False, comment="The account's id, a UUID as the API writes it."),
        sa.Column("surface", sa.VARCHAR, nullable=False, comment="Where the item was listed: posts or stories."),
        sa.Column("media_id", sa.VARCHAR, nullable=False, comment="The item's own id, always text."),
    )


def upgrade() -> None:
    """Add columns to media and fields, and four tables."""
    _media()
    _fields()
    _tables()


def _media() -> None:
    # NULL, because the definition of the digest may still change; `gramhouse rebuild` computes it from the payloads.
    op.add_column(
        "media", sa.Column("content_digest", sa.BIGINT, comment="The same without the counts, too."), schema="core"
    )
    op.add_column(
        "media",
        sa.Column("content_changed_at", _INSTANT, comment="When what it says, counts aside, last changed."),
        schema="core",
    )
    # Filled by ALTER, because DuckDB can neither alter a table that the same transaction has updated, nor add a NOT
    # NULL column.
    op.execute("ALTER TABLE core.media ALTER content_changed_at TYPE TIMESTAMPTZ USING changed_at")
    op.alter_column("media", "content_changed_at", nullable=False, schema="core")


def _fields() -> None:
    for column in (
        sa.Column(
            "ordinal",
            sa.BIGINT,
            comment="Order in which its resource's fields were met, from 0; NULL where that decides nothing.",
        ),
        sa.Column("name", sa.VARCHAR, comment="The name given to its column, should it need one."),
        sa.Column("child_table", sa.VARCHAR, comment="The name given to its child table, should it need one."),
        sa.Column("kinds", sa.VARCHAR, comment="JSON object: each kind of value met there, and when first."),
    ):
        op.add_column("fields", column, schema="core")


def _tables() -> None:
    op.create_table(
        "media_superseded",
        *_item(),
        sa.Column("valid_from", _INSTANT, nullable=False, comment="When a sync first saw this version."),
        sa.Column("valid_to", _INSTANT, nullable=False, comment="When a sync first saw the next one."),
        sa.Column(
            "payload",
            sa.JSON,
            nullable=False,
            comment="The whole item as it was last written in this version, JSON.",
        ),
        schema="core",
        comment="Versions of items' content that another has followed; the present one is in media.",
    )
    op.create_table(
        "media_metrics",
        *_item(),
        sa.Column(
            "metric",
            sa.VARCHAR,
            nullable=False,
            comment="What is counted: the name of a column of media, such as like_count.",
        ),
        sa.Column("value", sa.BIGINT, comment="The count from then on; NULL when the item stopped saying it."),
        sa.Column("observed_at", _INSTANT, nullable=False, comment="When a sync first saw this value."),
        schema="core",
        comment="Every count an item has said, one row per change.",
    )
    op.create_table(
        "media_children",
        *_item(),
        sa.Column("position", sa.INTEGER, nullable=False, comment="Place in the item's list, from 0."),
        sa.Column("child_id", sa.VARCHAR, comment="The child's own id, always text."),
        sa.Column("media_type", sa.VARCHAR, comment="Kind of media as the API says it."),
        sa.Column(
            "media_url",
            sa.VARCHAR,
            comment="Address of the picture or film when the item last changed; a signature in it expires.",
        ),
        schema="core",
        comment="Children of media items (the pictures of a carousel), one row each.",
    )
    op.create_table(
        "mapping",
        sa.Column("mapping", sa.JSON, nullable=False, comment="The mapping that every row of media was read by."),
        schema="ops",
        comment="How media items are read: one row.",
    )
