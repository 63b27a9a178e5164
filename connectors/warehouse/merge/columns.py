"""Items as columns: the Arrow table of a batch, and the lists of columns in the statements that read it. No IO."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from connectors.warehouse.merge.reading import Records
from connectors.warehouse.merge.registry import Observation, Registry, child_table
from models.item import Items, is_ignored
from models.mapping import READING_TYPES, Reading
from models.mapping import Mapping as MediaMapping
from models.record import as_text
from models.views import MEDIA

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
    mapped = [
        Column(c.column, READING_TYPES[c.reading], None, c.reading is Reading.COUNT and not is_ignored(c, mapping))
        for c in mapping.columns
    ]
    fields = [
        Column(field.column_name, field.type, field.path, field.is_count)
        for field in registry.values()
        if field.resource == MEDIA and field.column_name is not None
    ]
    return [*mapped, *fields]


def observations(records: Records, items: Items, known: Registry, mapping: MediaMapping) -> Iterator[Observation]:
    """Yield what items say about fields: the first value of each type that `known` does not have."""
    for (path, kind, is_count), number in items.kinds.items():
        field = known.get((MEDIA, path))
        if field is None or kind not in field.kinds or is_count > field.is_count:
            yield Observation(MEDIA, path, kind, is_count, records.page(number).received_at)
    for (path, member, kind), number in items.member_kinds.items():
        table = child_table(path, mapping)
        field = known.get((table, member))
        if field is None or kind not in field.kinds:
            yield Observation(table, member, kind, is_count=False, at=records.page(number).received_at)


def table_of(items: Items, columns: Sequence[Column], registry: Registry) -> pa.Table:
    """Return a table of items with all columns that items fill, their number `n`, and the hash of their content."""
    numbers = list(items.media_ids)
    table = {
        "n": pa.array(numbers, pa.int64()),
        "media_id": pa.array(items.media_ids.values(), pa.string()),
        "content_hash": pa.array(items.content_hashes.values(), pa.uint64()),
        "overflow": pa.array(_overflow(items, registry), pa.string()),
    }
    for column in columns:
        table[column.name] = _array(items, numbers, column)
    return pa.table(table)


def join_tables(tables: Iterable[pa.Table], columns: Sequence[Column]) -> pa.Table:
    """Return the rows of tables that `table_of` made, with these columns, which may be more, or of wider types."""
    own = ("n", "media_id", "content_hash", "overflow")
    return pa.concat_tables(
        pa.table({**{name: table[name] for name in own}, **{one.name: _widened(table, one) for one in columns}})
        for table in tables
    )


def _widened(table: pa.Table, column: Column) -> pa.ChunkedArray:
    if column.name not in table.column_names:
        return pa.nulls(table.num_rows, _arrow_type(column))
    values = table[column.name]
    if values.type == _arrow_type(column):
        return values
    return _texts(values.to_pylist()) if column.type == "VARCHAR" else values.cast(_arrow_type(column))


def _arrow_type(column: Column) -> pa.DataType:
    is_mapped_time = column.path is None and column.type == _TIME
    return pa.timestamp("us", tz="UTC") if is_mapped_time else _ARROW[column.type]


def _texts(values: Sequence[object]) -> pa.Array:
    if not {*map(type, values)} <= {str, type(None)}:
        values = [value if value is None else as_text(value) for value in values]
    return pa.array(values, pa.string())


def _array(items: Items, numbers: Sequence[int], column: Column) -> pa.Array:
    values: Mapping[int, Any]
    if column.path is None:
        values = {**items.columns.get(column.name, {}), **items.counts.get(column.name, {})}
    else:
        values = items.fields.get(column.path, {})
        if column.is_count:
            values = {**values, **items.counts.get(column.path, {})}
    listed = list(map(values.get, numbers))
    if column.path is not None and column.type == "VARCHAR":
        return _texts(listed)
    return pa.array(listed, _arrow_type(column))


def _overflow(items: Items, registry: Registry) -> Sequence[str | None]:
    """Return the fields without a column of each item, as JSON; None for most."""
    in_columns = {
        field.path for field in registry.values() if field.resource == MEDIA and field.column_name is not None
    }
    left: dict[int, dict[str, object]] = {}
    values_of: Mapping[str, Mapping[int, object]]
    for values_of in (items.fields, items.counts):
        # Counts of mapped columns are by their names.
        for path in [path for path in values_of if path.startswith("/") and path not in in_columns]:
            for number, value in values_of[path].items():
                left.setdefault(number, {})[path] = value
    return [_encode(left[number]).decode() if number in left else None for number in items.media_ids]


def sql_lists(columns: Sequence[Column]) -> Mapping[str, str]:
    """Return the lists of columns that stand in braces in the statements."""
    counts = [column for column in columns if column.is_count]

    def each(format_one: Callable[[Column], str], of: Sequence[Column], separator: str = ", ") -> str:
        return separator.join(map(format_one, of))

    return {
        "typed": each(lambda c: f'{_typed(c)} AS "{c.name}"', columns),
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
            lambda c: f"CASE WHEN bool_or({_typed(c)} IS DISTINCT FROM m.\"{c.name}\") THEN '{_assignment(c)}' END",
            [Column("overflow", "VARCHAR", "", is_count=False), *columns],
        ),
    }


def _typed(column: Column) -> str:
    return f'b."{column.name}"' if column.path is None else f'b."{column.name}"::{column.type}'


def _assignment(column: Column) -> str:
    return f'"{column.name}" = {_typed(column)}'
