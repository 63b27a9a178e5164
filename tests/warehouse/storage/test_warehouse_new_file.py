"""The tables of a new file are created without SQLAlchemy, and equal those it would create."""

from pathlib import Path

from sqlalchemy import Connection, create_engine

from connectors.warehouse.storage.connection import connect, raw_connection
from models.tables import WAREHOUSE

MADE = {
    "tables": "SELECT schema_name, table_name FROM duckdb_tables() ORDER BY ALL",
    "columns": """
        SELECT schema_name, table_name, column_index, column_name, data_type, is_nullable, column_default
        FROM duckdb_columns() WHERE NOT internal ORDER BY ALL
    """,
    "keys": """
        SELECT schema_name, table_name, constraint_type, constraint_column_names
        FROM duckdb_constraints() ORDER BY ALL
    """,
}


def _made(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    found = {name: raw_connection(connection).execute(query).fetchall() for name, query in MADE.items()}
    return {name: [row for row in rows if "alembic" not in str(row[1])] for name, rows in found.items()}


def test_a_new_file_has_the_schema_that_the_dialect_would_create(path: Path) -> None:
    engine = create_engine("duckdb:///:memory:")
    with engine.connect() as theirs, connect(path) as ours:
        for schema in sorted({str(table.schema) for table in WAREHOUSE.sorted_tables}):
            theirs.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        WAREHOUSE.create_all(theirs)
        assert _made(ours) == _made(theirs)
    engine.dispose()


def test_missing_objects_are_created_and_others_kept(path: Path) -> None:
    with connect(path) as connection:
        whole = _made(connection)
        raw_connection(connection).execute("DROP TABLE core.account_status_history")
    with connect(path) as connection:
        assert _made(connection) == whole
