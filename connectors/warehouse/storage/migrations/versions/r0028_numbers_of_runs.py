"""Rows have the number of the run that wrote them."""

from collections.abc import Iterator

from alembic import op
from sqlalchemy import Connection

revision = "0028"
down_revision = "0027"

# The tables of feeds, and their child tables, which are not declared.
_OF_ITEMS = """
SELECT table_name, list(column_name) FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = 'core'
GROUP BY table_name HAVING list_contains(list(column_name), 'media_id')
"""

# A time of each table at which a run wrote its rows. That of a removal is not known.
_AT = ("observed_at", "valid_to", "written_at")

# A run that was killed has no end.
_RUNS = """
CREATE TEMP TABLE run_times AS
SELECT seq, started_at, coalesce(ended_at, lead(started_at) OVER (ORDER BY seq), 'infinity'::TIMESTAMPTZ) AS ended_at
FROM core.runs WHERE seq IS NOT NULL
"""


def _filled(connection: Connection) -> Iterator[tuple[str, str, str | None]]:
    """Yield the tables and columns that the revision adds, and the time by which each is filled."""
    yield "accounts", "run_seq", "last_seen_at"
    yield "account_status_history", "run_seq", "valid_from"
    for table, columns in connection.exec_driver_sql(_OF_ITEMS).fetchall():
        yield table, "run_seq", next((at for at in _AT if at in columns), None)
        if "first_seen_at" in columns:
            yield table, "first_run_seq", "first_seen_at"


def upgrade() -> None:
    """Add the columns."""
    for table, column, _ in _filled(op.get_bind()):
        op.execute(f'ALTER TABLE core."{table}" ADD COLUMN {column} BIGINT')


def fill(connection: Connection) -> None:
    """Find the run that was under way when a row was written, or leave NULL."""
    connection.exec_driver_sql(_RUNS)
    for table, column, at in _filled(connection):
        if at is not None:
            is_known = " AND t.removed_at IS NULL" if at == "written_at" else ""
            connection.exec_driver_sql(
                f'UPDATE core."{table}" AS t SET {column} = r.seq FROM run_times AS r'  # noqa: S608 - declared names
                f" WHERE t.{at} BETWEEN r.started_at AND r.ended_at{is_known}"
            )
    connection.exec_driver_sql("DROP TABLE run_times")
