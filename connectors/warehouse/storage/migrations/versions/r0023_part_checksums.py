"""Parts of the raw store have checksums."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add the column. Parts that exist have no checksum until a compaction rewrites them."""
    op.add_column("raw_parts", sa.Column("checksum", sa.VARCHAR), schema="ops")
