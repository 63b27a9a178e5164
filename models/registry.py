"""The registry of the fields of items: which there have been, their types, and the names of their columns. No IO."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from models.fields import FieldType, column_type, safe_name, table_name, unique
from models.mapping import Mapping as MediaMapping
from models.mapping import to_keys
from models.views import CHILDREN, MEDIA, own_columns

# The first fields get columns; the next ones are registered without one, and the rest are not registered. Records with
# data as keys ({"by_day": {"2026-01-01": 1, ...}}) must not make a table of ten thousand columns.
MOST_COLUMNS = 300
MOST_FIELDS = 600


def child_table(path: str, mapping: MediaMapping) -> str:
    """Return the name of the view of the elements of an item's list."""
    return CHILDREN if path in mapping.children else table_name(MEDIA, to_keys(path))


@dataclass(frozen=True, slots=True)
class Field:
    """A field: the types of its values, whether one of them was a count, and its column, if it has one.

    Fields outside of items have no types, and no column.
    """

    resource: str
    path: str
    kinds: frozenset[FieldType]
    is_count: bool
    first_seen_at: datetime
    column_name: str | None = None
    ordinal: int = 0
    last_type_change_at: datetime | None = None

    @property
    def type(self) -> str:
        """Return the DuckDB type of the column."""
        return column_type(self.kinds)


Registry = Mapping[tuple[str, str], Field]


def register(known: Registry, seen: Iterable[Field], own: Collection[str]) -> Registry:
    """Return the registry with what was seen of fields, which must be in the order in which it was received.

    `own` are the names of the columns of core.media that are not columns of fields.
    """
    fields = dict(known)
    numbers = Counter(field.resource for field in known.values())
    taken = {resource: {*own_columns(CHILDREN)} for resource in numbers} | {MEDIA: {*own}}
    for field in known.values():
        taken[field.resource].add(field.column_name or "")
    for field in seen:
        key = field.resource, field.path
        if key in fields:
            fields[key] = _widen(fields[key], field)
        elif (ordinal := numbers[field.resource]) < MOST_FIELDS:
            numbers[field.resource] += 1
            name = None
            # SQL texts, such as those of views, cannot have a path with a NUL.
            if field.kinds and ordinal < MOST_COLUMNS and "\0" not in field.path:
                of_table = taken.setdefault(field.resource, {*own_columns(CHILDREN)})
                name = unique(safe_name(to_keys(field.path)), of_table)
                of_table.add(name)
            fields[key] = replace(field, column_name=name, ordinal=ordinal)
    return fields


def _widen(field: Field, seen: Field) -> Field:
    if seen.kinds <= field.kinds and seen.is_count <= field.is_count:
        return field
    wider = replace(field, kinds=field.kinds | seen.kinds, is_count=field.is_count or seen.is_count)
    return wider if wider.type == field.type else replace(wider, last_type_change_at=seen.first_seen_at)
