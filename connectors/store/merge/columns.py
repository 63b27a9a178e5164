"""Items as columns: the Arrow table of a batch, and the lists of columns in the statements that read it. No IO."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from connectors.store.merge.reading import Records
from connectors.store.merge.registry import MEDIA, Observation, Registry, child_table
from models.fields import FieldType
from models.item import Item, member_types
from models.mapping import READING_TYPES, Reading
from models.mapping import Mapping as MediaMapping
from models.readings import as_text

_TIME = "TIMESTAMP WITH TIME ZONE"
_encode = msgspec.json.Encoder(order="sorted").encode

# Times of fields are texts with a zone, which DuckDB reads faster than Python.
_ARROW = {
    "BOOLEAN": pa.bool_(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    _TIME: pa.string(),
}

# A count in the column of a field that also had other values.
_COUNT_IN = {
    "BIGINT": '{0}."{1}"',
    "DOUBLE": 'CASE WHEN {0}."{1}" = trunc({0}."{1}") THEN TRY_CAST({0}."{1}" AS BIGINT) END',
    # A whole number in a column that was one of DOUBLE has a fraction of zero.
    "VARCHAR": "CASE WHEN regexp_full_match({0}.\"{1}\", '-?[0-9]+([.]0+)?')"
    " THEN TRY_CAST(split_part({0}.\"{1}\", '.', 1) AS BIGINT) END",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of core.media that items fill. `path` is that of its field; None for a mapped column."""

    name: str
    type: str
    path: str | None
    is_count: bool


def item_columns(mapping: MediaMapping, registry: Registry) -> Sequence[Column]:
    """Return the columns that items fill: mapped ones, and those of fields."""
    mapped = [Column(c.column, READING_TYPES[c.reading], None, c.reading is Reading.COUNT) for c in mapping.columns]
    fields = [
        Column(field.column_name, field.type, field.path, field.is_count)
        for field in registry.values()
        if field.resource == MEDIA and field.column_name is not None
    ]
    return [*mapped, *fields]


def observations(
    records: Records, items: Mapping[int, Item], known: Registry, mapping: MediaMapping
) -> Iterator[Observation]:
    """Yield what a batch says about fields: of all items, the first value of each type that `known` does not have."""
    seen = {(field.resource, field.path, kind, is_count)
            for field in known.values() for kind in field.kinds for is_count in {False, field.is_count}}  # fmt: skip
    for number, item in items.items():
        at = records.pages[records.page_of[number]].received_at
        found = [(MEDIA, path, kind, path in item.counts) for path, kind in item.types.items()]
        for path, kind in item.types.items():
            if kind is FieldType.LIST:
                table = child_table(path, mapping)
                found += [
                    (table, member, of_member, False) for member, of_member in member_types(str(item.fields[path]))
                ]
        for key in found:
            if key not in seen:
                seen.add(key)
                yield Observation(*key, at)


def table_of(items: Mapping[int, Item], columns: Sequence[Column], registry: Registry) -> pa.Table:
    """Return a table of items with all columns that items fill, their number `n`, and the hash of their content."""
    rows = list(items.values())
    table = {
        "n": pa.array(items.keys(), pa.int64()),
        "media_id": pa.array([item.media_id for item in rows], pa.string()),
        "content_hash": pa.array([item.content_hash for item in rows], pa.uint64()),
        "overflow": pa.array(_overflow(rows, registry), pa.string()),
    }
    for column in columns:
        table[column.name] = _array(rows, column)
    return pa.table(table)


def _array(rows: Sequence[Item], column: Column) -> pa.Array:
    name, path = column.name, column.path
    values: list[Any]
    if path is None:
        values = [item.counts.get(name) if column.is_count else item.columns.get(name) for item in rows]
        return pa.array(values, pa.timestamp("us", tz="UTC") if column.type == _TIME else _ARROW[column.type])
    values = [item.fields.get(path) for item in rows]
    if column.is_count:
        values = [item.counts.get(path, value) for item, value in zip(rows, values, strict=True)]
    if column.type == "VARCHAR":
        values = [value if value is None else as_text(value) for value in values]
    return pa.array(values, _ARROW[column.type])


def _overflow(rows: Sequence[Item], registry: Registry) -> Sequence[str | None]:
    """Return the fields without a column of each item, as JSON; None for most."""
    in_columns = {
        field.path for field in registry.values() if field.resource == MEDIA and field.column_name is not None
    }
    texts: list[str | None] = []
    for item in rows:
        if item.types.keys() <= in_columns:
            texts.append(None)
        else:
            left = {path: item.fields.get(path, item.counts.get(path)) for path in item.types.keys() - in_columns}
            texts.append(_encode(left).decode())
    return texts


def sql_lists(columns: Sequence[Column]) -> Mapping[str, str]:
    """Return the lists of columns that stand in braces in the statements."""
    counts = [column for column in columns if column.is_count]

    def each(format_one: Callable[[Column], str], of: Sequence[Column], separator: str = ", ") -> str:
        return separator.join(map(format_one, of))

    return {
        "columns": each(lambda c: f'"{c.name}"', columns),
        "typed": each(lambda c: f'b."{c.name}"::{c.type} AS "{c.name}"' if c.path else f'b."{c.name}"', columns),
        "stored": each(lambda c: f'm."{c.name}"', columns),
        "counts": each(lambda c: f"'{c.name}': {_COUNT_IN[c.type].format('b', c.name)}", counts),
        "stored_counts": each(lambda c: f"'{c.name}': {_COUNT_IN[c.type].format('m', c.name)}", counts),
        "metrics": each(
            lambda c: (
                f'CASE WHEN counts."{c.name}" IS DISTINCT FROM before."{c.name}"'
                f" THEN {{metric: '{c.name}', value: counts.\"{c.name}\"}} END"
            ),
            counts,
        ),
        "differing": each(
            lambda c: f'CASE WHEN bool_or(l."{c.name}" IS DISTINCT FROM m."{c.name}") THEN \'{c.name}\' END',
            [Column("overflow", "VARCHAR", "", is_count=False), *columns],
        ),
    }
