"""Items are compared by their columns instead of digests of their text; a hash identifies the stored bytes."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Replace the digests by a hash of the payload, NULL until the rows are rebuilt; add the overflow column."""
    for column in ("digest", "content_digest", "payload_hash"):
        op.drop_column("media", column, schema="core")
    op.add_column(
        "media",
        sa.Column(
            "overflow",
            sa.VARCHAR,
            comment="JSON, by path: what the item carries in fields that have no column; NULL when all have one.",
        ),
        schema="core",
    )
    op.add_column(
        "media",
        sa.Column(
            "payload_hash",
            sa.BLOB,
            comment="Hash (XXH3-128) of the payload as it came: one that is equal is not decoded.",
        ),
        schema="core",
    )
