"""The tables as they are declared, and as DuckDB has them."""

from connectors.warehouse.storage.declared import TABLES
from tests.warehouse.rig import in_memory

INSTANTS = ("_at", "_from", "_to", "since")


def test_a_new_warehouse_has_the_declared_tables_and_columns_without_keys_and_indexes() -> None:
    with in_memory() as connection:
        query = "SELECT schema_name || '.' || table_name, column_name, data_type FROM duckdb_columns()"
        columns = connection.db.execute(f"{query} WHERE NOT internal ORDER BY column_index").fetchall()
        found: dict[str, dict[str, str]] = {}
        for table, column, type_ in columns:
            found.setdefault(table, {})[column] = type_.replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")
        assert found == {name: dict(table.types) for name, table in TABLES.items()}
        keys = "SELECT constraint_type FROM duckdb_constraints() WHERE constraint_type <> 'NOT NULL'"
        assert connection.db.execute(f"{keys} UNION ALL SELECT index_name FROM duckdb_indexes()").fetchall() == []


def test_every_table_and_column_is_described() -> None:
    for table in TABLES.values():
        assert table.comments.keys() == table.types.keys()
        for comment in (table.comment, *table.comments.values()):
            assert comment.endswith("."), (table.name, comment)
            assert "-- " not in comment


def test_every_time_has_a_time_zone() -> None:
    times = {type_ for table in TABLES.values() for name, type_ in table.types.items() if name.endswith(INSTANTS)}
    assert times == {"TIMESTAMPTZ"}
    assert "TIMESTAMP" not in {type_ for table in TABLES.values() for type_ in table.types.values()}


def test_the_order_of_rows_names_columns() -> None:
    ordered = [table for table in TABLES.values() if table.order]
    assert len(ordered) == 5
    for table in ordered:
        assert {key.split()[0] for key in table.order.split(", ")} <= table.types.keys()
