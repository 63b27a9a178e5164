"""Decoded cells at hand in DuckDB: what they show that no decoder tells, each item's id, the rows of child tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from duckdb import DuckDBPyConnection

from connectors.warehouse.ingest.columns import checks, columns_select, media_id_of
from connectors.warehouse.ingest.decode import Decoded
from connectors.warehouse.ingest.layout import CellTable, Layout
from connectors.warehouse.ingest.registered import ArrowTables
from connectors.warehouse.quoting import quoted
from models.fields import Sighting
from models.mapping import ColumnMapping
from models.mapping import Mapping as MediaMapping
from models.sheets import CHILDREN, Sheet

_MEDIA = "media_cells"


def _name(table: str) -> str:
    return _MEDIA if table == "media" else f"cells_of_{table}"


def decoded_children(sheet: Sheet) -> str:
    """Return the name of the temporary table of a child table's rows: place of the item, position, columns."""
    return quoted(f"decoded_{sheet.table}")


def register_cells(tables: ArrowTables, decoded: Decoded) -> None:
    """Have DuckDB read the cells by names of their own, those of an earlier call no more."""
    found: Mapping[str, Any] = {"media": decoded.media, **decoded.children}
    for table, cells in found.items():
        tables.put(_name(table), cells)


def _met(
    db: DuckDBPyConnection, cells: CellTable, mapped: Sequence[ColumnMapping], ids: Sequence[str], received: str
) -> Iterator[Sighting]:
    wanted = checks(cells, mapped, ids)
    if not wanted:
        return
    tests = ", ".join(f"min(received_at) FILTER ({condition})" for condition in wanted.values())
    query = f"SELECT {tests} FROM {quoted(_name(cells.resource))} JOIN ({received}) USING (place)"  # noqa: S608
    (row,) = db.execute(query).fetchall()
    for (path, kind), at in zip(wanted, row, strict=True):
        if at is not None:
            yield Sighting(cells.resource, path, kind, at)


def sightings(db: DuckDBPyConnection, layout: Layout, mapping: MediaMapping, received: str) -> Iterator[Sighting]:
    """Yield the kinds that the values of the registered cells show and no decoder tells.

    `received` is a query of `received_at` by place.
    """
    yield from _met(db, layout.media, mapping.columns, mapping.media_id, received)
    for table in layout.children.values():
        yield from _met(db, table, mapping.child_columns if table.resource == CHILDREN else (), (), received)


def identify(db: DuckDBPyConnection, layout: Layout, mapping: MediaMapping) -> None:
    """Make `decoded_ids`: the id, or NULL, of each item by place."""
    found = media_id_of(mapping.media_id, layout.media.cells)
    db.execute(f"CREATE OR REPLACE TEMP TABLE decoded_ids AS SELECT place, {found} AS media_id FROM {_MEDIA}")  # noqa: S608


def children_query(layout: Layout, sheet: Sheet) -> str:
    """Return the query of a child table's rows, from the registered cells: place of the item, position, columns."""
    columns = columns_select(sheet, layout.children[sheet.table].cells)
    return f"SELECT place, position{columns} FROM {quoted(_name(sheet.table))}"  # noqa: S608 - quoted


def read_columns(db: DuckDBPyConnection, layout: Layout, sheets: Sequence[Sheet]) -> None:
    """Make the temporary table of each child table's rows."""
    for sheet in sheets:
        db.execute(f"CREATE OR REPLACE TEMP TABLE {decoded_children(sheet)} AS {children_query(layout, sheet)}")
