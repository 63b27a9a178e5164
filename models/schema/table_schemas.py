"""Table schemas: the columns of items and their child tables, and the path of the payload that fills each column.

They depend only on the mapping and the registry of fields. No IO.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from models.mapping import READING_TYPES, ColumnMapping, Mapping, Reading
from models.pointer import to_keys
from models.schema.fields import Field, Registry
from models.schema.json_types import LISTS, JsonType

CHILDREN = "media_children"

# JSON types whose values a mapped column does not hold.
_OF_ITS_OWN = LISTS | {JsonType.MIXED, JsonType.SHADOWED, JsonType.UNREADABLE}


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """A column filled from payloads: a canonical one from its mapping's paths, any other from the path of its field."""

    name: str
    type: str
    paths: tuple[str, ...]
    mapping: ColumnMapping | None = None
    field: Field | None = None


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table filled from payloads. A child table has the elements of all its `lists` (paths), one after another.

    `metrics` are the columns whose counts are recorded over time.
    """

    table: str
    columns: tuple[ColumnSchema, ...]
    lists: tuple[str, ...] = ()
    metrics: tuple[ColumnSchema, ...] = ()


class Part(StrEnum):
    """What a change of a column's value counts as: of content, of a count, or of an address, which is no change."""

    CONTENT = "content"
    COUNT = "count"
    ADDRESS = "address"


# Names of fields with media URLs, which are signed again for each response. URLs of web pages are content.
_ADDRESS = re.compile(r"(?:.*_)?(?:url|uri|src)|.*(?:Url|URL|Uri|URI|Src)")


@lru_cache(maxsize=8)
def _count_keys(mapping: Mapping) -> re.Pattern[str]:
    """Return the pattern of keys that name a count. Cached, because every column of every merge needs it."""
    return re.compile(mapping.count_key_pattern)


def part_of(column: ColumnSchema, mapping: Mapping) -> Part:
    """Return what a change of this column's value counts as."""
    if column.field is not None:
        key = to_keys(column.field.path)[-1]
        read_as = next((each.column for each in mapping.columns if column.field.path in each.paths), "media_url")
        if _count_keys(mapping).fullmatch(key) and column.type != "BOOLEAN":
            return Part.COUNT
        is_address = read_as == "media_url" and _ADDRESS.fullmatch(key) and column.type == "VARCHAR"
        return Part.ADDRESS if is_address else Part.CONTENT
    if column.name == "media_url":
        return Part.ADDRESS
    return Part.COUNT if column.type == "BIGINT" else Part.CONTENT


def counts_and_addresses(mapping: Mapping) -> Callable[[str], bool]:
    """Return whether a key names a count or a media URL, as a function."""
    counts = _count_keys(mapping)
    return lambda key: bool(counts.fullmatch(key) or _ADDRESS.fullmatch(key))


def holds_content(column: ColumnSchema, mapping: Mapping) -> bool:
    """Return whether a column belongs to a version of an item's content.

    A column of counts does if it also has other values, that is, if it is not BIGINT.
    """
    part = part_of(column, mapping)
    return part is Part.CONTENT or (part is Part.COUNT and column.type != "BIGINT")


def history(items: TableSchema, mapping: Mapping) -> TableSchema:
    """Return the schema of superseded versions: the columns of items that hold content."""
    content = tuple(column for column in items.columns if holds_content(column, mapping))
    return TableSchema(f"{items.table}_superseded", content)


def has_own_column(field: Field, reading: Reading) -> bool:
    """Return whether a field that the mapping reads also has its own column, for values that the mapped one loses.

    Every mapped column loses lists. An object among texts needs no column, because its fields have columns; among other
    values it would be lost without a trace.
    """
    lost = _OF_ITS_OWN if reading is Reading.TEXT else _OF_ITS_OWN | {JsonType.OBJECT}
    return field.type is not None and bool(field.json_types.keys() & lost)


def _column_schemas(
    resource: str, columns: Sequence[ColumnMapping], ids: Sequence[str], registry: Registry
) -> tuple[ColumnSchema, ...]:
    fields = sorted((field for field in registry.values() if field.resource == resource), key=lambda f: f.ordinal)
    readings = {path: mapping.reading for mapping in columns for path in mapping.paths}
    readings.update(dict.fromkeys(ids, Reading.TEXT))
    canonical = [
        ColumnSchema(
            mapping.column,
            READING_TYPES[mapping.reading],
            tuple(path for path in mapping.paths if (resource, path) in registry),
            mapping=mapping,
        )
        for mapping in columns
    ]
    inferred = [
        ColumnSchema(field.name, field.type, (field.path,), field=field)
        for field in fields
        if field.type is not None and (field.path not in readings or has_own_column(field, readings[field.path]))
    ]
    return (*canonical, *inferred)


def _metrics(columns: Sequence[ColumnSchema], mapping: Mapping) -> tuple[ColumnSchema, ...]:
    """Return the columns whose counts are recorded over time.

    Not those of fields that a canonical column reads as something else, such as a text: it has their values.
    """
    others = {path for each in mapping.columns if each.reading is not Reading.COUNT for path in each.paths}
    return tuple(
        column
        for column in columns
        if part_of(column, mapping) is Part.COUNT and (column.field is None or column.field.path not in others)
    )


def child_table(field: Field, mapping: Mapping) -> str | None:
    """Return the child table for the list of objects at this path; None if the field is past MOST_COLUMNS."""
    return CHILDREN if field.path in mapping.children else field.table


def child_lists(mapping: Mapping, registry: Registry) -> dict[str, list[str]]:
    """Return the child tables and the paths of the lists of objects that fill each, one after another."""
    lists: dict[str, list[str]] = {CHILDREN: []} if mapping.child_columns else {}
    for field in sorted(registry.values(), key=lambda f: f.ordinal):
        if field.resource == mapping.table and JsonType.ROWS in field.json_types:
            table = child_table(field, mapping)
            if table is not None:
                lists.setdefault(table, []).append(field.path)
    if CHILDREN in lists:
        lists[CHILDREN].sort(key=mapping.children.index)
    return lists


def table_schemas(mapping: Mapping, registry: Registry) -> tuple[TableSchema, ...]:
    """Return the schemas of the mapping's table, and of a child table for every list of objects found in its items.

    Those of `media` always include `media_children`.
    """
    columns = _column_schemas(mapping.table, mapping.columns, mapping.media_id, registry)
    items = TableSchema(mapping.table, columns, metrics=_metrics(columns, mapping))
    child_mapping = {CHILDREN: mapping.child_columns}
    return (
        items,
        *(
            TableSchema(table, _column_schemas(table, child_mapping.get(table, ()), (), registry), tuple(paths))
            for table, paths in child_lists(mapping, registry).items()
        ),
    )
