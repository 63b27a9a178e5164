"""Runs and scans are ordered by sequence numbers, not by the clock; cooldowns record when the API requested them."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add columns. Runs are numbered in the order of their insertion, which does not depend on the clock."""
    for table, name, schema, kind, comment in (
        ("runs", "seq", "core", sa.BIGINT, "Order in which runs began, from 1, whatever the clock said."),
        ("accounts", "seen_seq", "core", sa.BIGINT, "The landing that last listed it; NULL before 0.2."),
        (
            "media",
            "written_seq",
            "core",
            sa.BIGINT,
            "The landing of that sighting; NULL where it is older than every landing that counts.",
        ),
        ("walks", "seq", "core", sa.BIGINT, "The landing of its last page; NULL before 0.2."),
        (
            "checkpoints",
            "began_seq",
            "ops",
            sa.BIGINT,
            "The landing of the first page of a walk that is not complete; filled in by the fold.",
        ),
        (
            "checkpoints",
            "repeated_pages",
            "ops",
            sa.INTEGER,
            "Pages in a row, up to this one, whose items the walk had seen before.",
        ),
        (
            "checkpoints",
            "empty_pages",
            "ops",
            sa.INTEGER,
            "Pages without an item since the last one that brought something new.",
        ),
        ("holds", "asked_at", "ops", sa.TIMESTAMP(timezone=True), "When the API asked for the wait."),
    ):
        op.add_column(table, sa.Column(name, kind, comment=comment), schema=schema)
    _number_runs()
    # The start of the last run is used as the time of the request, unless the cooldown was over by then.
    op.execute("UPDATE ops.holds SET asked_at = least(resume_after, (SELECT arg_max(started_at, seq) FROM core.runs))")


_COLUMNS = """
SELECT column_name, data_type, is_nullable, comment FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = 'core' AND table_name = 'runs' ORDER BY column_index
"""


def _number_runs() -> None:
    # In a new table: DuckDB cannot alter a table that the same transaction has updated, as later revisions would.
    columns = op.get_bind().exec_driver_sql(_COLUMNS).all()
    declared = ", ".join(f"{name} {kind}{'' if nullable else ' NOT NULL'}" for name, kind, nullable, _ in columns)
    op.execute(f"CREATE TABLE core.numbered_runs ({declared})")
    for name, _, _, comment in columns:
        text = (comment or "").replace("'", "''")
        op.execute(f"COMMENT ON COLUMN core.numbered_runs.{name} IS '{text}'")
    op.execute(
        "INSERT INTO core.numbered_runs BY NAME"
        " SELECT * REPLACE (row_number() OVER (ORDER BY rowid) AS seq) FROM core.runs"
    )
    op.execute("DROP TABLE core.runs")
    op.execute("ALTER TABLE core.numbered_runs RENAME TO runs")
    op.execute("COMMENT ON TABLE core.runs IS 'Runs, one row each.'")
