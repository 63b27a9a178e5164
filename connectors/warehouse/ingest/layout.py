"""Decides which paths of an item get a column of cells, and its type. No IO.

A cell contains the value at one path, or at one path of a list element. Table columns are read from cells.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from models.schema.fields import AND_MORE, MEDIA, MOST_COLUMNS, Field, Registry
from models.schema.json_types import JsonType, Keys, column_type
from models.schema.mapping import READING_TYPES, ColumnMapping, Reading
from models.schema.mapping import Mapping as MediaMapping
from models.schema.pointer import to_keys
from models.schema.table_schemas import CHILDREN, child_table

_SQL_TIME = READING_TYPES[Reading.TIMESTAMP]

_ARROW: Mapping[str, Any] = {
    "BOOLEAN": pa.bool_(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    # As text, because the values may turn out to be no times.
    _SQL_TIME: pa.string(),
}

# The type of lists that have been empty so far; no cell has it. With a list of nulls, pyarrow creates invalid arrays.
NO_ELEMENT = pa.list_(pa.int8())

# A text cell may have values of several JSON types. In items as received, Arrow accepts the one that was found first.
_AS_TEXT: Mapping[JsonType, Any] = {
    JsonType.TEXT: pa.string(),
    JsonType.INSTANT: pa.string(),
    JsonType.INTEGER: pa.int64(),
    JsonType.LONG: pa.int64(),
    JsonType.BOOLEAN: pa.bool_(),
    JsonType.NUMBER: pa.float64(),
}


def arrow_type(column: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the Arrow type of the cells whose column has this DuckDB type."""
    return pa.list_(_ARROW[column.removesuffix("[]")]) if column.endswith("[]") else _ARROW[column]


@dataclass(frozen=True, slots=True)
class Cell:
    """A column of cells: its name, its path, the JSON types found there in order, and its DuckDB type.

    `time` is the name of another column with its values as timestamps, if any column needs these.
    """

    name: str
    path: str
    json_types: Sequence[JsonType]
    type: str
    time: str | None = None


@dataclass(frozen=True, slots=True)
class CellTable:
    """The cells of media items, or of the elements of the lists that fill a child table (`lists`, in order).

    `expected` are the Arrow fields of an item or an element as it is received; items with other fields are rewritten.
    `known` are the paths of all fields, including those without cells.
    """

    resource: str
    cells: Mapping[str, Cell]
    known: frozenset[str]
    lists: tuple[str, ...]
    expected: tuple[Any, ...]

    @property
    def fields(self) -> Sequence[Any]:
        """The Arrow fields of the cells."""
        return [pa.field(cell.name, arrow_type(cell.type)) for cell in self.cells.values()]


@dataclass(frozen=True, slots=True)
class Layout:
    """The cells of media items, and of each child table; `tables` are these by the path of a list that fills them.

    `schema` is the Arrow schema of items as they were received.
    """

    media: CellTable
    children: Mapping[str, CellTable]
    tables: Mapping[str, CellTable]
    schema: Any

    @property
    def rewritten(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """The Arrow schema of rewritten items: a field for each cell, and a list for each child table."""
        children = [
            pa.field(name, pa.list_(pa.struct([pa.field("position", pa.int32()), *table.fields])))
            for name, table in self.children.items()
        ]
        return pa.schema([pa.field("overflow", pa.string()), *self.media.fields, *children])


def _needed(field: Field, candidates: Collection[str]) -> str | None:
    """Return the type of a field's cells; None when neither a column nor the mapping reads them."""
    if field.path == AND_MORE or not (field.ordinal < MOST_COLUMNS or field.path in candidates):
        return None
    return column_type(field.json_types)


def _cells(fields: Sequence[Field], mapped: Sequence[ColumnMapping], ids: Sequence[str]) -> dict[str, Cell]:
    read = {*ids, *(path for column in mapped for path in column.paths)}
    times = {path for column in mapped if column.reading is Reading.TIMESTAMP for path in column.paths}
    cells = {}
    for field in fields:
        if (json_type := _needed(field, read)) is not None:
            json_types = tuple(sorted(field.json_types, key=field.json_types.__getitem__))
            is_time = json_type == _SQL_TIME or (field.path in times and not json_type.endswith("[]"))
            time = f"t{field.ordinal}" if is_time else None
            cells[field.path] = Cell(f"c{field.ordinal}", field.path, json_types, json_type, time)
    return cells


def _tree(fields: Sequence[Field], cells: Mapping[str, Cell], rows: Mapping[str, CellTable]) -> tuple[Any, ...]:
    """Return the Arrow fields of an object with these fields."""
    inner: dict[Keys, list[Field]] = {}
    for field in fields:
        if field.path != AND_MORE:
            keys = to_keys(field.path)
            inner.setdefault(keys[:-1], []).append(field)

    def build(above: Keys) -> list[Any]:
        return [
            pa.field(to_keys(field.path)[-1], json_type)
            for field in inner.get(above, ())
            if (json_type := _expected(field, to_keys(field.path))) is not None
        ]

    def _expected(field: Field, keys: Keys) -> Any:  # noqa: ANN401 - pyarrow has no types
        if (cell := cells.get(field.path)) is not None:
            if cell.type == "VARCHAR":
                return next((_AS_TEXT[json_type] for json_type in cell.json_types if json_type in _AS_TEXT), pa.null())
            return arrow_type(cell.type) if cell.type != "VARCHAR[]" or JsonType.TEXTS in cell.json_types else pa.null()
        if JsonType.OBJECT in field.json_types:
            return pa.struct(build(keys))
        if field.path in rows:
            return pa.list_(pa.struct(rows[field.path].expected))
        # Items with values that have no cell are rewritten, with these as overflow.
        return NO_ELEMENT if JsonType.EMPTY_LIST in field.json_types else pa.null()

    return tuple(build(()))


def layout(mapping: MediaMapping, registry: Registry) -> Layout:
    """Return the layout for the fields of the registry and the paths of the mapping."""
    of: dict[str, list[Field]] = {MEDIA: []}
    for field in sorted(registry.values(), key=lambda field: field.ordinal):
        of.setdefault(field.resource, []).append(field)
    lists: dict[str, list[str]] = {CHILDREN: []}
    for field in of[MEDIA]:
        if JsonType.ROWS in field.json_types and (table := child_table(field, mapping)) is not None:
            lists.setdefault(table, []).append(field.path)
    lists[CHILDREN].sort(key=mapping.children.index)
    children = {}
    for table, paths in lists.items():
        fields = of.get(table, [])
        cells = _cells(fields, mapping.child_columns if table == CHILDREN else (), ())
        children[table] = CellTable(
            table, cells, frozenset(field.path for field in fields), tuple(paths), _tree(fields, cells, {})
        )
    cells = _cells(of[MEDIA], mapping.columns, mapping.media_id)
    tables = {path: table for table in children.values() for path in table.lists}
    expected = _tree(of[MEDIA], cells, tables)
    return Layout(
        CellTable(MEDIA, cells, frozenset(field.path for field in of[MEDIA]), (), expected),
        children,
        tables,
        pa.schema(expected),
    )
