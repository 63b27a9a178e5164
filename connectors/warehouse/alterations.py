"""Bringing `media` and its child tables to the sheets: columns added, widened, filled again from the payloads.

DuckDB refuses to commit an ALTER of a table that the same transaction has already written rows to, so this comes
before a fold's other work.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from connectors.warehouse.quoting import quoted
from connectors.warehouse.readings import Found, column_value, field_at, sheet_select
from connectors.warehouse.sources import elements_sql
from models.fields import MEDIA, Field, Registry
from models.kinds import Kind
from models.sheets import Sheet, SheetColumn

_COLUMNS = """
SELECT table_name, column_name, data_type FROM duckdb_columns()
WHERE schema_name = 'core' AND database_name = current_database()
"""


def _existing(connection: Connection) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.exec_driver_sql(_COLUMNS).all():
        tables.setdefault(table, {})[column] = kind
    return tables


def _stored_value(column: SheetColumn) -> str:
    return column_value(column, [f"json_extract_string(payload, {field_at(path)})" for path in column.paths])


def _in_store(field: Field | None, known: Registry) -> bool:
    """Say whether stored items may carry the field: what is met for the first time need not be looked for in them."""
    if field is None:
        return True
    before = known.get((field.resource, field.path))
    return before is not None and bool(before.kinds.keys() - {Kind.NULL})


def _alter_media(connection: Connection, sheet: Sheet, there: dict[str, str], known: Registry) -> None:
    filled: list[str] = []
    for column in sheet.columns:
        name = quoted(column.name)
        if column.name not in there:
            connection.exec_driver_sql(f"ALTER TABLE core.media ADD COLUMN {name} {column.type}")
            if _in_store(column.field, known):
                filled.append(f"{name} = {_stored_value(column)}")
        elif there[column.name] != column.type:
            # Emptied, and filled below: DuckDB finds no function when it replays its log, and a file whose ALTER calls
            # one would never open again after a kill.
            connection.exec_driver_sql(
                f"ALTER TABLE core.media ALTER COLUMN {name} SET DATA TYPE {column.type} USING (NULL)"
            )
            filled.append(f"{name} = {_stored_value(column)}")
    if filled:
        connection.exec_driver_sql(f"UPDATE core.media SET {', '.join(filled)}")  # noqa: S608 - quoted


def children_select(sheet: Sheet, relation: str) -> str:
    """Return the query of a child table's rows out of a relation with an item's key and payload."""
    found = Found()
    columns = sheet_select(sheet, found)
    elements = elements_sql(relation, sheet.lists, "account_id, surface, media_id")
    return f"""
SELECT account_id, surface, media_id, position{columns}
FROM (SELECT account_id, surface, media_id, position, {found.lookup()} FROM ({elements}))
"""  # noqa: S608 - made of the sheet, quoted


def _create_children(connection: Connection, sheet: Sheet) -> None:
    columns = "".join(f", {quoted(column.name)} {column.type}" for column in sheet.columns)
    connection.exec_driver_sql(
        f"CREATE OR REPLACE TABLE core.{quoted(sheet.table)} (account_id VARCHAR NOT NULL, surface VARCHAR NOT NULL,"
        f" media_id VARCHAR NOT NULL, position INTEGER NOT NULL{columns})"
    )


def fill_children(connection: Connection, sheet: Sheet) -> None:
    """Make a child table anew from what is stored."""
    _create_children(connection, sheet)
    if sheet.lists:
        rows = children_select(sheet, "SELECT account_id, surface, media_id, payload FROM core.media")
        connection.exec_driver_sql(f"INSERT INTO core.{quoted(sheet.table)} BY NAME {rows} ORDER BY ALL")


def _alter_children(
    connection: Connection, sheet: Sheet, there: dict[str, str] | None, known: Registry, registry: Registry
) -> None:
    lists = [registry[MEDIA, path] for path in sheet.lists]
    new_lists = [field for field in lists if Kind.ROWS not in _kinds_before(field, known)]
    new_columns = [column for column in sheet.columns if there is None or column.name not in there]
    widened = [
        column for column in sheet.columns if there is not None and there.get(column.name, column.type) != column.type
    ]
    in_store = any(_in_store(field, known) for field in new_lists) or any(
        _in_store(column.field, known) for column in new_columns
    )
    if widened or in_store:
        fill_children(connection, sheet)
    elif there is None:
        _create_children(connection, sheet)
    else:
        for column in new_columns:
            connection.exec_driver_sql(
                f"ALTER TABLE core.{quoted(sheet.table)} ADD COLUMN {quoted(column.name)} {column.type}"
            )


def _kinds_before(field: Field, known: Registry) -> Collection[Kind]:
    before = known.get((field.resource, field.path))
    return before.kinds.keys() if before is not None else ()


def alter(connection: Connection, sheets: Sequence[Sheet], known: Registry, registry: Registry) -> None:
    """Make the tables what the sheets say; `known` is the registry by which they are as they are."""
    tables = _existing(connection)
    for sheet in sheets:
        there = tables.get(sheet.table)
        if sheet.table == MEDIA:
            _alter_media(connection, sheet, there or {}, known)
        else:
            _alter_children(connection, sheet, there, known, registry)
