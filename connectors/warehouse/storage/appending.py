"""Sends values to DuckDB as one JSON document, which DuckDB parses."""

import json
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.declared import TABLES

_encode = msgspec.json.Encoder().encode

_PARTITION = ("resource", "account_id", "surface")


def as_json(values: Sequence[object]) -> str:
    """Return values as JSON, with times as ISO 8601 text. Raises UnicodeEncodeError for lone surrogates."""
    return _encode(values).decode()


def row_types(table: str, **names: str) -> Mapping[str, object]:
    """Return the types of objects with a `partition` whose other fields are columns of a table, as `rows_sql` expects.

    `names` has the names of fields that differ from their column's.
    """
    types: dict[str, object] = {names.get(name, name): type_ for name, type_ in TABLES[table].types.items()}
    return {"partition": {name: types.pop(name) for name in _PARTITION}, **types}


def rows_sql(types: Mapping[str, object]) -> str:
    """Return a query for rows, whose parameter is a JSON list of objects. Fields of nested objects become columns.

    All rows are one parameter: DuckDB's client looks for pandas twice for each parameter, so one for each value was
    eight times as slow (docs/decisions/duckdb.md).
    """
    return f"SELECT unnest(from_json(?, '{json.dumps([types])}'), recursive := true)"


@cache
def _append_sql(table: str) -> str:
    return f"INSERT INTO {table} BY NAME {rows_sql(TABLES[table].types)}"


def append(connection: Connection, table: str, rows: Sequence[object]) -> None:
    """Append rows to a table of `tables.sql`: objects, or mappings, whose names are those of columns."""
    if rows:
        connection.db.execute(_append_sql(table), [as_json(rows)])
