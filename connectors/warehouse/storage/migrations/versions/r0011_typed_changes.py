"""Items are compared by their columns: no digests of texts any more, and a hash that says which bytes are stored."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Replace digests by the hash of the payload, empty until the next merge computes it, and the overflow column."""
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
