"""Decoded cells as DuckDB tables: finds values that decoders do not report, and reads the rows of child tables."""

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
    """Return the name of the temporary table with a child table's rows: the item's `_order_key`, position, columns."""
    return quoted(f"decoded_{schema.table}")


def register_cells(tables: ArrowTables, decoded: Decoded) -> None:
    """Register the cells with DuckDB, one table for each resource; they replace those of an earlier call."""
    found: Mapping[str, Any] = {"media": decoded.media, **decoded.children}
    for table, cells in found.items():
        tables.put(_name(table), cells)


def _met(
    db: DuckDBPyConnection, cells: CellTable, mapped: Sequence[ColumnMapping], ids: Sequence[str], received: str
) -> Iterator[FieldObservation]:
    wanted = checks(cells, mapped, ids)
    if not wanted:
        return
    # Conditions are rarely true, and the join costs more than evaluating them.
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
    """Yield observations that decoders do not report, from the values of the registered cells.

    `received` is a query for `received_at` by order key.
    """
    yield from _met(db, layout.media, mapping.columns, mapping.media_id, received)
    for table in layout.children.values():
        yield from _met(db, table, mapping.child_columns if table.resource == CHILDREN else (), (), received)


def children_query(layout: Layout, schema: TableSchema) -> str:
    """Return a query for a child table's rows, from the registered cells: the item's `_order_key`, position, columns.

    Names of inferred columns never begin with an underscore.
    """
    columns = columns_select(schema, layout.children[schema.table].cells)
    return f"SELECT order_key AS _order_key, position{columns} FROM {quoted(_name(schema.table))}"  # noqa: S608 - quoted


def read_columns(db: DuckDBPyConnection, layout: Layout, table_schemas: Sequence[TableSchema]) -> None:
    """Create the temporary tables with the rows of child tables."""
    for schema in table_schemas:
        db.execute(f"CREATE OR REPLACE TEMP TABLE {decoded_children(schema)} AS {children_query(layout, schema)}")
