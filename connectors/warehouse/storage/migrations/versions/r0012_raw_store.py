"""The raw store: the warehouse lists its parts, and rows refer to the raw row that they were decoded from."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_INSTANT = sa.TIMESTAMP(timezone=True)
_HAS_ARCHIVE = """
SELECT EXISTS (
    FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = 'ops' AND table_name = 'archive'
)
"""


def upgrade() -> None:
    """Add two tables and columns. A warehouse with an archive keeps its id."""
    op.create_table(
        "warehouse",
        sa.Column(
            "warehouse_id",
            sa.VARCHAR,
            nullable=False,
            comment="The warehouse's id: the name of its folder in the raw store.",
        ),
        sa.Column(
            "raw_parts",
            sa.BIGINT,
            nullable=False,
            comment="The number of the last part of the raw store; 0 before any.",
        ),
        schema="ops",
        comment="The warehouse itself: one row.",
    )
    op.create_table(
        "raw_parts",
        sa.Column("number", sa.BIGINT, nullable=False, comment="The part's number, which is in its file's name."),
        sa.Column("rows", sa.BIGINT, nullable=False, comment="Its rows."),
        sa.Column("bytes", sa.BIGINT, nullable=False, comment="Size of its file."),
        sa.Column("first_landed", sa.BIGINT, nullable=False, comment="Its lowest landing number."),
        sa.Column("last_landed", sa.BIGINT, nullable=False, comment="Its highest landing number."),
        sa.Column("oldest_seen_at", _INSTANT, nullable=False, comment="When the first of its rows was received."),
        sa.Column(
            "retired_at",
            _INSTANT,
            comment="When its rows were written to another part or deleted; NULL while it counts.",
        ),
        sa.Column(
            "unlisted_at", _INSTANT, comment="When a snapshot was published that no longer lists it; NULL before."
        ),
        schema="ops",
        comment="Parts of the raw store: those that count, and retired ones that older snapshots list.",
    )
    for table in ("media", "media_superseded"):
        op.add_column(
            table,
            sa.Column(
                "raw_landed",
                sa.BIGINT,
                comment="Landing number of the raw row it was decoded from; NULL where its bytes are not kept.",
            ),
            schema="core",
        )
        # Payloads of existing rows move to the raw store when the warehouse is next opened for writing.
        if op.get_bind().exec_driver_sql(f"SELECT EXISTS (FROM core.{table})").scalar():
            op.execute(f"ALTER TABLE core.{table} ALTER payload DROP NOT NULL")
            # A name that no inferred column can have.
            op.execute(f'ALTER TABLE core.{table} RENAME payload TO "old payload"')
        else:
            op.drop_column(table, "payload", schema="core")
    if op.get_bind().exec_driver_sql(_HAS_ARCHIVE).scalar():
        op.execute("INSERT INTO ops.warehouse SELECT warehouse_id, 0 FROM ops.archive")
        op.execute("DROP TABLE ops.archive")
