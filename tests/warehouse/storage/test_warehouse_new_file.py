"""The tables of a new file; test_warehouse_migrations compares them with those of the revisions."""

from pathlib import Path

from connectors.warehouse.storage.connection import Connection, connect

_COLUMNS = """
SELECT schema_name, table_name, column_index, column_name, data_type, is_nullable, column_default
FROM duckdb_columns() WHERE NOT internal ORDER BY ALL
"""


def _columns(connection: Connection) -> list[tuple[object, ...]]:
    return connection.db.execute(_COLUMNS).fetchall()


def test_missing_tables_are_created_and_others_kept(path: Path) -> None:
    with connect(path) as connection:
        whole = _columns(connection)
        connection.db.execute("DROP TABLE core.account_status_history")
        assert _columns(connection) != whole
    with connect(path) as connection:
        assert _columns(connection) == whole
