from sqlalchemy import TIMESTAMP

from models.tables import INSTANT, METADATA


def test_every_table_and_column_has_a_comment() -> None:
    for table in METADATA.tables.values():
        for declared in (table, *table.columns):
            assert declared.comment, declared
            assert declared.comment[-1] == ".", declared


def test_every_timestamp_has_a_time_zone() -> None:
    columns = [column for table in METADATA.tables.values() for column in table.columns]
    instants = [column for column in columns if column.name.endswith(("_at", "_from", "_to", "since"))]
    assert instants
    assert all(column.type is INSTANT for column in instants)
    assert not any(isinstance(column.type, TIMESTAMP) and column.type is not INSTANT for column in columns)


def test_tables_have_no_keys_and_no_indexes() -> None:
    assert not any(table.indexes or table.primary_key.columns for table in METADATA.tables.values())
