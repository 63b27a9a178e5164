"""Decoded cells as DuckDB tables: values that no decoder returns, and the rows of child tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from duckdb import DuckDBPyConnection

from connectors.warehouse.ingest.columns import checks, columns_select
from connectors.warehouse.ingest.decode import Decoded
from connectors.warehouse.ingest.layout import CellTable, Layout
from connectors.warehouse.ingest.registered import ArrowTables
from connectors.warehouse.storage.connection import value
from connectors.warehouse.storage.quoting import quoted
from models.schema.fields import FieldObservation
from models.schema.mapping import ColumnMapping
from models.schema.mapping import Mapping as MediaMapping
from models.schema.table_schemas import CHILDREN, TableSchema

_MEDIA = "media_cells"


def _name(table: str) -> str:
    return _MEDIA if table == "media" else f"cells_of_{table}"


def decoded_children(schema: TableSchema) -> str:
    """Return the name of the temporary table of a child table's rows: `_order_key` of the item, position, columns."""
    return quoted(f"decoded_{schema.table}")


def register_cells(tables: ArrowTables, decoded: Decoded) -> None:
    """Have DuckDB read the cells by names of their own, those of an earlier call no more."""
    found: Mapping[str, Any] = {"media": decoded.media, **decoded.children}
    for table, cells in found.items():
        tables.put(_name(table), cells)


def _met(
    db: DuckDBPyConnection, cells: CellTable, mapped: Sequence[ColumnMapping], ids: Sequence[str], received: str
) -> Iterator[FieldObservation]:
    wanted = checks(cells, mapped, ids)
    if not wanted:
        return
    # One is rarely true, and the join costs more than the conditions.
    any_met = " OR ".join(f"({condition})" for condition in wanted.values())
    if not value(db, f"SELECT EXISTS (FROM {quoted(_name(cells.resource))} WHERE {any_met})"):
        return
    tests = ", ".join(f"min(received_at) FILTER ({condition})" for condition in wanted.values())
    query = f"SELECT {tests} FROM {quoted(_name(cells.resource))} JOIN ({received}) USING (order_key)"  # noqa: S608
    (row,) = db.execute(query).fetchall()
    for (path, json_type), at in zip(wanted, row, strict=True):
        if at is not None:
            yield FieldObservation(cells.resource, path, json_type, at)


def observations(
    db: DuckDBPyConnection, layout: Layout, mapping: MediaMapping, received: str
) -> Iterator[FieldObservation]:
    """Yield the kinds that the values of the registered cells show and no decoder reports.

    `received` is a query of `received_at` by order key.
    """
    yield from _met(db, layout.media, mapping.columns, mapping.media_id, received)
    for table in layout.children.values():
        yield from _met(db, table, mapping.child_columns if table.resource == CHILDREN else (), (), received)


def children_query(layout: Layout, schema: TableSchema) -> str:
    """Return the query of a child table's rows, from the registered cells: `_order_key` of the item, position, columns.

    A column that was inferred never begins with an underscore.
    """
    columns = columns_select(schema, layout.children[schema.table].cells)
    return f"SELECT order_key AS _order_key, position{columns} FROM {quoted(_name(schema.table))}"  # noqa: S608 - quoted


def read_columns(db: DuckDBPyConnection, layout: Layout, table_schemas: Sequence[TableSchema]) -> None:
    """Make the temporary table of each child table's rows."""
    for schema in table_schemas:
        db.execute(f"CREATE OR REPLACE TEMP TABLE {decoded_children(schema)} AS {children_query(layout, schema)}")
