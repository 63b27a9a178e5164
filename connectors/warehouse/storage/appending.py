"""Appends rows to a table as one JSON document that DuckDB parses."""

import json
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from connectors.warehouse.storage.connection import Connection
from models.tables.table import Table

_encode = msgspec.json.Encoder().encode


def as_json(row: Mapping[str, object]) -> str:
    """Return a row as a JSON object, with times as ISO 8601 text. Raises UnicodeEncodeError for lone surrogates."""
    return _encode(row).decode()


@cache
def rows_sql(table: Table, long_texts: str | None) -> str:
    """Return a query for rows of a table. Its parameters: all rows as JSON, and the values of `long_texts`, if any."""
    types = {column.name: column.type for column in table.columns if column.name != long_texts}
    taken, kept = (f", unnest(?) AS {long_texts}", f", {long_texts}") if long_texts else ("", "")
    rows = f"unnest(from_json(?, '{json.dumps([types])}')) AS r"
    return f"SELECT r.*{kept} FROM (SELECT {rows}{taken})"  # noqa: S608 - names from declarations


def append(connection: Connection, table: Table, rows: Sequence[str], **long_texts: Sequence[str]) -> None:
    """Append rows, given as JSON objects by column. `long_texts` has the values of one column that the rows lack.

    All rows are one JSON document in one parameter: DuckDB's client looks for pandas twice for each parameter, so one
    per value was eight times as slow (docs/decisions/duckdb.md). Long texts are a separate parameter, because in JSON
    they would be escaped and parsed again.
    """
    if rows:
        query = rows_sql(table, next(iter(long_texts), None))
        statement = f"INSERT INTO {table.full_name} BY NAME {query}"
        connection.db.execute(statement, [f"[{','.join(rows)}]", *long_texts.values()])
