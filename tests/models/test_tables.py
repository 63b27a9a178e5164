from models.tables import WAREHOUSE
from models.tables.columns import INSTANT


def test_every_table_and_column_has_a_comment() -> None:
    for table in WAREHOUSE.values():
        assert table.comment, table
        for column in table.columns:
            assert column.comment, column
            assert column.comment[-1] == ".", column


def test_every_timestamp_has_a_time_zone() -> None:
    instants = [c for t in WAREHOUSE.values() for c in t.columns if c.name.endswith(("_at", "_from", "_to", "since"))]
    assert instants
    assert all(column.type == INSTANT for column in instants)
