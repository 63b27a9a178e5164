"""Decoded cells as DuckDB tables: finds facts about the mapping, and reads the rows of child tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from duckdb import DuckDBPyConnection

from connectors.warehouse.ingest.columns import checks, columns_select
from connectors.warehouse.ingest.decode import Decoded
from connectors.warehouse.ingest.layout import CellTable, Layout
from connectors.warehouse.ingest.registered import ArrowTables
from connectors.warehouse.storage.connection import value
from connectors.warehouse.storage.quoting import quoted
from models.mapping import Mapping as MediaMapping
from models.schema.fields import FieldObservation, Registry
from models.schema.json_types import JsonType
from models.schema.table_schemas import CHILDREN, TableSchema


@dataclass(frozen=True, slots=True)
class RegisteredCells:
    """Decoded cells that are registered with DuckDB: `names` are the relations, by the table whose rows they become."""

    layout: Layout
    registry: Registry
    names: Mapping[str, str]

    @property
    def media(self) -> str:
        """Return the relation with the cells of media."""
        return self.names["media"]

    def children_query(self, schema: TableSchema) -> str:
        """Return a query for the rows of a child table: the item's `_order_key`, position, columns.

        Names of inferred columns never begin with an underscore.
        """
        columns = columns_select(schema, self.layout.children[schema.table].cells)
        return f"SELECT order_key AS _order_key, position{columns} FROM {self.names[schema.table]}"  # noqa: S608 - quoted


def register_cells(tables: ArrowTables, decoded: Decoded, prefix: str = "") -> RegisteredCells:
    """Register the cells with DuckDB, one table for each resource; `prefix` begins the names of these tables.

    They replace those of an earlier call with the same prefix.
    """
    found: Mapping[str, Any] = {"media": decoded.media, **decoded.children}
    names = {table: tables.put(f"{prefix}cells_of_{table}", cells) for table, cells in found.items()}
    return RegisteredCells(decoded.layout, decoded.registry, {table: quoted(name) for table, name in names.items()})


def observations(
    db: DuckDBPyConnection, cells: RegisteredCells, mapping: MediaMapping, received: str
) -> Iterator[FieldObservation]:
    """Yield the facts about the mapping that the cells show, when they were first received.

    `received` is a query for `received_at` by order key.
    """
    media, children = cells.layout.media, cells.layout.children.get(CHILDREN)
    of_media = checks(media.cells, mapping.columns, mapping.media_id)
    yield from _observations(db, cells.media, media, of_media, received)
    if children is not None:
        of_children = checks(children.cells, mapping.child_columns, ())
        yield from _observations(db, cells.names[CHILDREN], children, of_children, received)


def _observations(
    db: DuckDBPyConnection, name: str, cells: CellTable, wanted: Mapping[tuple[str, JsonType], str], received: str
) -> Iterator[FieldObservation]:
    # Conditions are rarely true, and the join costs more than evaluating them.
    any_met = " OR ".join(f"({condition})" for condition in wanted.values())
    if not wanted or not value(db, f"SELECT EXISTS (FROM {name} WHERE {any_met})"):
        return
    tests = ", ".join(f"min(received_at) FILTER ({condition})" for condition in wanted.values())
    query = f"SELECT {tests} FROM {name} JOIN ({received}) USING (order_key)"  # noqa: S608
    (row,) = db.execute(query).fetchall()
    for (path, json_type), at in zip(wanted, row, strict=True):
        if at is not None:
            yield FieldObservation(cells.resource, path, json_type, at)
