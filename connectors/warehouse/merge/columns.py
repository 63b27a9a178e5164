"""Items as columns, and columns as items again; and the lists of columns in the statements that read them. No IO."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from models.item import Item, Items, changed_columns, content_of, has_counts
from models.mapping import READING_TYPES, Field, FieldType, MediaMapping, Reading, Registry
from models.values import READ, as_count, as_text, time_of
from models.views import MEDIA

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode

Row = dict[str, Any]

_ARROW = {
    "BOOLEAN": pa.bool_(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", tz="UTC"),
}


class Column(NamedTuple):
    """A column of core.media that items fill. `key` is that of its values: its own name, or the path of its field.

    `kinds` are the types of a field's values.
    """

    name: str
    type: str
    key: str
    is_count: bool
    kinds: frozenset[FieldType] = frozenset()


def item_columns(mapping: MediaMapping, registry: Registry) -> list[Column]:
    """Return the columns that items fill: mapped ones, and those of fields."""
    mapped = [
        Column(one.column, READING_TYPES[one.reading], one.column, has_counts(one, mapping)) for one in mapping.columns
    ]
    fields = [
        Column(one.column_name, one.type, one.path, one.is_count, one.kinds)
        for one in registry.values()
        if one.resource == MEDIA and one.column_name is not None
    ]
    return [*mapped, *fields]


def alter_columns(columns: Iterable[Column], present: Mapping[str, str], table: str = "core.media") -> Iterator[str]:
    """Yield the statements that give a table of items these columns; `present` are the types of those that it has.

    A type is changed without USING and never to JSON, and first in the transaction: DuckDB can replay only that after a
    kill.
    """
    for column in columns:
        if column.name not in present:
            yield f'ALTER TABLE {table} ADD COLUMN "{column.name}" {column.type}'
        elif present[column.name] != column.type:
            yield f'ALTER TABLE {table} ALTER COLUMN "{column.name}" TYPE {column.type}'


def fields_of(
    items: Items, received_at: Callable[[int], datetime], known: Registry, mapping: MediaMapping
) -> Iterator[Field]:
    """Yield what items say about fields: the first value of each type that `known` does not have.

    `received_at` returns when the item with a number was received.
    """
    for (path, member, kind, is_count), n in items.kinds.items():
        key = (mapping.child_table(path), member) if member else (MEDIA, path)
        field = known.get(key)
        if field is None or kind not in field.kinds or is_count > field.is_count:
            yield Field(*key, frozenset({kind}), is_count, received_at(n))


def table_of(items: Items, columns: Sequence[Column]) -> pa.Table:
    """Return a table of items with all columns that items fill, their number `n`, and the hash of their content."""
    read = [*items.read.values()]
    values, counts = [item.values for item in read], [item.counts for item in read]
    keys = {column.key for column in columns}
    return pa.table(
        {
            "n": pa.array(items.read, pa.int64()),
            "media_id": pa.array([item.media_id for item in read], pa.string()),
            "content_hash": pa.array([item.content_hash for item in read], pa.uint64()),
            "overflow": pa.array([_overflow(item, keys) for item in read], pa.string()),
            **{column.name: _array(values, counts, column) for column in columns},
        }
    )


def _array(values: Sequence[Mapping[str, Any]], counts: Sequence[Mapping[str, int]], column: Column) -> pa.Array:
    key = column.key
    listed: list[Any] = [each.get(key) for each in values]
    if column.is_count or column.type == "BIGINT":
        listed = [each.get(key, value) for each, value in zip(counts, listed, strict=True)]
    if column.type == "VARCHAR" and not {*map(type, listed)} <= {str, type(None)}:
        listed = [value if value is None else as_text(value) for value in listed]
    if column.kinds and column.type == "TIMESTAMP WITH TIME ZONE":
        return pa.array(listed, pa.string()).cast(_ARROW[column.type])
    return pa.array(listed, _ARROW[column.type])


def _overflow(item: Item, in_columns: AbstractSet[str]) -> str | None:
    """Return the fields of an item without a column, as JSON; None for most."""
    if item.values.keys() <= in_columns and item.counts.keys() <= in_columns:
        return None
    values = {**item.values, **item.counts}
    return _encode({key: values[key] for key in values.keys() - in_columns}).decode()


def read_version(row: Row, columns: Sequence[Column], mapping: MediaMapping) -> Row:
    """Return the content of a stored row as it was `before`, by the rule of records, and what differs in it `after`."""
    content = content_of(_values_of(row["before"], columns), mapping)
    before, after = (
        content_of(_values_of(row[which], columns, reads_texts=True), mapping) for which in ("before", "after")
    )
    return {"n": row["n"], "content": content.decode(), "changed": changed_columns(before, after)}


def _values_of(row: Row, columns: Sequence[Column], *, reads_texts: bool = False) -> Row:
    """Return the values of a row as those of an item: by the name of a mapped column, or the path of a field.

    In a column of texts for several types, the spelling of a number or a time depends on when the column became one of
    texts. With `reads_texts`, such a text is the number or the time that it spells.
    """
    values = {column.key: _by_value(row[column.name], column.kinds) for column in columns}
    left = _decode(row["overflow"] or "{}")
    values |= {path: _by_value(value, {FieldType.LIST}) for path, value in left.items()}
    if reads_texts:
        values |= {one.key: _spelled(values[one.key]) for one in columns if len(one.kinds) > 1}
    return {key: value for key, value in values.items() if value is not None}


def _by_value(value: Any, kinds: Collection[FieldType]) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a field with these types: that of a time or a list, which a column has in another form."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and FieldType.LIST in kinds and value.startswith(("[", "{")):
        with suppress(msgspec.DecodeError):
            return _decode(value)
    return value


def _spelled(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the number or the time that a text spells; any other value as it is."""
    if isinstance(value, str):
        for read in (as_count, READ[Reading.NUMBER], time_of):
            if (found := read(value)) is not None:
                return _by_value(found, ())
    return value


def list_changed_counts(columns: Sequence[Column], stored: Sequence[Column]) -> str:
    """Return the SQL list of the counts of an item `b` that differ from those of its row `m`, and NULL for the others.

    `stored` are the columns that `m` has.
    """
    before = {column.name: count_of("m", column) for column in stored if column.is_count}
    counts = [
        f"if({count_of('b', one)} IS DISTINCT FROM {before.get(one.name, 'NULL')},"
        f" {{metric: '{one.name}', value: {count_of('b', one)}}}, NULL)"
        for one in columns
        if one.is_count
    ]
    return ", ".join(["NULL::STRUCT(metric VARCHAR, value BIGINT)", *counts])


def list_changed_columns(columns: Sequence[Column]) -> str:
    """Return the SQL list of the names of columns that differ between any `b` and `m`, and NULL for the others."""
    names = ["overflow", *(column.name for column in columns)]
    return ", ".join(f'if(bool_or(b."{name}" IS DISTINCT FROM m."{name}"), \'{name}\', NULL)' for name in names)


def count_of(table: str, column: Column) -> str:
    """Return the expression for a count, whose column may also have other values: text, or numbers with a fraction."""
    value = f'{table}."{column.name}"'
    if column.type == "BIGINT":
        return value
    digits = f"regexp_extract({value}::VARCHAR, '^(-?[0-9]+)([.]0+)?$', 1)"
    return f"TRY_CAST(nullif({digits}, '') AS BIGINT)"
