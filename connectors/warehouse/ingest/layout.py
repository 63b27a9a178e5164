"""Decides which paths of an item get a column of cells, and its type. No IO.

A cell contains the value at one path, or at one path of a list element. Table columns are read from cells.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from models.mapping import READING_TYPES, ColumnMapping, Reading
from models.mapping import Mapping as MediaMapping
from models.pointer import Keys, to_keys
from models.schema.fields import AND_MORE, MOST_COLUMNS, Field, Registry
from models.schema.json_types import LISTS, JsonType, column_type
from models.schema.table_schemas import CHILDREN, child_lists

SQL_TIME = READING_TYPES[Reading.TIMESTAMP]

_ARROW: Mapping[str, Any] = {
    "BOOLEAN": pa.bool_(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    # As text, because the values may turn out to be no times.
    SQL_TIME: pa.string(),
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

# The JSON types of which a text cell has the JSON.
_NESTED = LISTS | {JsonType.MIXED, JsonType.OBJECT, JsonType.EMPTY_LIST}


def arrow_type(column: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the Arrow type of the cells whose column has this DuckDB type."""
    return pa.list_(_ARROW[column.removesuffix("[]")]) if column.endswith("[]") else _ARROW[column]


@dataclass(frozen=True, slots=True)
class Cell:
    """A column of cells: its name, its path, the JSON types found there in order, and its DuckDB type.

    `time` is the name of another column with its values as timestamps, if any column needs these. `nested` is that of
    one which is true where the text is the JSON of an object or a list, if there may be any: a text may be spelled like
    that.
    """

    name: str
    path: str
    json_types: Sequence[JsonType]
    type: str
    time: str | None = None
    nested: str | None = None

    @property
    def fields(self) -> Sequence[Any]:
        """The Arrow fields of the cells."""
        return [
            pa.field(self.name, arrow_type(self.type)),
            *([] if self.nested is None else [pa.field(self.nested, pa.bool_())]),
        ]


@dataclass(frozen=True, slots=True)
class CellTable:
    """The cells of media items, or of the elements of the lists that fill a child table (`lists`, in order).

    `known` are the paths of all fields, including those without cells. `expected` are the Arrow fields of an item or an
    element as it is received; items with other fields are rewritten, to have those in `rewritten`.
    """

    resource: str
    cells: Mapping[str, Cell]
    known: frozenset[str]
    lists: Sequence[str]
    expected: Sequence[Any]

    @property
    def rewritten(self) -> Sequence[Any]:
        """The Arrow fields of the cells."""
        return [field for cell in self.cells.values() for field in cell.fields]

    def type_of(self, path: str) -> str | None:
        """Return the DuckDB type of the cells at a path; None if it has none."""
        cell = self.cells.get(path)
        return None if cell is None else cell.type


@dataclass(frozen=True, slots=True)
class Layout:
    """The cells of media items, and of each child table; `tables` are these by the path of a list that fills them."""

    media: CellTable
    children: Mapping[str, CellTable]
    tables: Mapping[str, CellTable]

    @property
    def rewritten(self) -> Any:  # noqa: ANN401 - pyarrow has no types
        """The Arrow schema of rewritten items: a field for each cell, and a list for each child table."""
        children = [
            pa.field(name, pa.list_(pa.struct([pa.field("position", pa.int32()), *table.rewritten])))
            for name, table in self.children.items()
        ]
        return pa.schema([pa.field("overflow", pa.string()), *self.media.rewritten, *children])


def _cells(fields: Sequence[Field], mapped: Sequence[ColumnMapping], ids: Sequence[str]) -> dict[str, Cell]:
    read = {*ids, *(path for column in mapped for path in column.paths)}
    times = {path for column in mapped if column.reading is Reading.TIMESTAMP for path in column.paths}
    cells = {}
    for field in fields:
        sql_type = column_type(field.json_types)
        if sql_type is None or not (field.ordinal < MOST_COLUMNS or field.path in read):
            continue
        json_types = tuple(sorted(field.json_types, key=field.json_types.__getitem__))
        is_time = sql_type == SQL_TIME or (field.path in times and not sql_type.endswith("[]"))
        time = f"t{field.ordinal}" if is_time else None
        nested = f"n{field.ordinal}" if sql_type == "VARCHAR" and not _NESTED.isdisjoint(json_types) else None
        cells[field.path] = Cell(f"c{field.ordinal}", field.path, json_types, sql_type, time, nested)
    return cells


def _expected(fields: Sequence[Field], cells: Mapping[str, Cell], tables: Mapping[str, CellTable]) -> Sequence[Any]:
    """Return the Arrow fields of an object with these fields."""
    inner: dict[Keys, list[tuple[Keys, Field]]] = {}
    for field in fields:
        keys = to_keys(field.path)
        inner.setdefault(keys[:-1], []).append((keys, field))

    def build(above: Keys) -> list[Any]:
        return [pa.field(keys[-1], expected(keys, field)) for keys, field in inner.get(above, ())]

    def expected(keys: Keys, field: Field) -> Any:  # noqa: ANN401 - pyarrow has no types
        if (cell := cells.get(field.path)) is not None:
            if cell.type == "VARCHAR":
                return next((_AS_TEXT[json_type] for json_type in cell.json_types if json_type in _AS_TEXT), pa.null())
            return arrow_type(cell.type) if cell.type != "VARCHAR[]" or JsonType.TEXTS in cell.json_types else pa.null()
        if JsonType.OBJECT in field.json_types:
            return pa.struct(build(keys))
        if field.path in tables:
            return pa.list_(pa.struct(tables[field.path].expected))
        # Items with values that have no cell are rewritten, with these as overflow.
        return NO_ELEMENT if JsonType.EMPTY_LIST in field.json_types else pa.null()

    return build(())


def layout(mapping: MediaMapping, registry: Registry) -> Layout:
    """Return the layout for the fields of the registry and the paths of the mapping."""
    fields: dict[str, list[Field]] = {mapping.table: []}
    for field in sorted(registry.values(), key=lambda field: field.ordinal):
        if field.path != AND_MORE:
            fields.setdefault(field.resource, []).append(field)
    children = {}
    for table, lists in child_lists(mapping, registry).items():
        cells = _cells(fields.get(table, ()), mapping.child_columns if table == CHILDREN else (), ())
        children[table] = _table(table, fields.get(table, ()), cells, lists, {})
    tables = {path: table for table in children.values() for path in table.lists}
    own = fields[mapping.table]
    cells = _cells(own, mapping.columns, mapping.media_id)
    return Layout(_table(mapping.table, own, cells, (), tables), children, tables)


def _table(
    resource: str,
    fields: Sequence[Field],
    cells: Mapping[str, Cell],
    lists: Sequence[str],
    tables: Mapping[str, CellTable],
) -> CellTable:
    known = frozenset(field.path for field in fields)
    return CellTable(resource, cells, known, lists, _expected(fields, cells, tables))
