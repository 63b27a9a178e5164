"""The tables of a new file; test_warehouse_migrations compares them with those of the revisions."""

from pathlib import Path

from connectors.warehouse.storage.connection import Connection, connect

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
    found = {name: connection.db.execute(query).fetchall() for name, query in MADE.items()}
    return {name: [row for row in rows if "alembic" not in str(row[1])] for name, rows in found.items()}


def test_missing_objects_are_created_and_others_kept(path: Path) -> None:
    with connect(path) as connection:
        whole = _made(connection)
        connection.db.execute("DROP TABLE core.account_status_history")
    with connect(path) as connection:
        assert _made(connection) == whole
