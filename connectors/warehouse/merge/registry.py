"""The registry of the fields of items: their columns, which the table gets before its rows are written. No IO."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from models.fields import FieldType, column_type, safe_name, table_name, unique
from models.mapping import READING_TYPES, to_keys
from models.mapping import Mapping as MediaMapping
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
    """A field: its column, if it has one, the types of its values, and whether one of them was a count."""

    resource: str
    path: str
    column_name: str | None
    kinds: frozenset[FieldType]
    is_count: bool
    ordinal: int
    first_seen_at: datetime
    last_type_change_at: datetime | None = None

    @property
    def type(self) -> str:
        """Return the DuckDB type of the column."""
        return column_type(self.kinds)


Registry = Mapping[tuple[str, str], Field]


@dataclass(frozen=True, slots=True)
class Observation:
    """Values of one type at a path, received first at a certain time; `type` is None outside of items."""

    resource: str
    path: str
    type: FieldType | None
    is_count: bool
    at: datetime


def register(known: Registry, observations: Iterable[Observation], own: Iterable[str]) -> Registry:
    """Return the registry with the observations added; they must be in the order in which they were received.

    `own` are the names of the columns of core.media that are not columns of fields.
    """
    fields = dict(known)
    taken: dict[str, set[str]] = {MEDIA: set(own)}
    for field in known.values():
        if field.column_name is not None:
            taken.setdefault(field.resource, own_columns(CHILDREN)).add(field.column_name)
    counts: dict[str, int] = {}
    for field in known.values():
        counts[field.resource] = counts.get(field.resource, 0) + 1
    for seen in observations:
        key = seen.resource, seen.path
        kinds = frozenset() if seen.type is None else frozenset({seen.type})
        if key in fields:
            fields[key] = _widened(fields[key], kinds, seen)
        elif (ordinal := counts.get(seen.resource, 0)) < MOST_FIELDS:
            counts[seen.resource] = ordinal + 1
            name = None
            # SQL texts, such as those of views, cannot have a path with a NUL.
            if seen.type is not None and ordinal < MOST_COLUMNS and "\0" not in seen.path:
                of_table = taken.setdefault(seen.resource, own_columns(CHILDREN))
                name = unique(safe_name(to_keys(seen.path)), of_table)
                of_table.add(name)
            fields[key] = Field(seen.resource, seen.path, name, kinds, seen.is_count, ordinal, seen.at)
    return fields


def _widened(field: Field, kinds: frozenset[FieldType], seen: Observation) -> Field:
    if kinds <= field.kinds and seen.is_count <= field.is_count:
        return field
    wider = replace(field, kinds=field.kinds | kinds, is_count=field.is_count or seen.is_count)
    return wider if wider.type == field.type else replace(wider, last_type_change_at=seen.at)


def alterations(known: Registry, registry: Registry, mapping: MediaMapping, columns: Iterable[str]) -> Sequence[str]:
    """Return the statements that give core.media the columns of the registry and of the mapping.

    A type is changed without USING and never to JSON, and first in the transaction: DuckDB can replay only that after a
    kill. `columns` are those that the table has.
    """
    present = set(columns)
    statements = [
        f'ALTER TABLE core.media ADD COLUMN "{column.column}" {READING_TYPES[column.reading]}'
        for column in mapping.columns
        if column.column not in present
    ]
    for key, field in registry.items():
        if field.column_name is None or field.resource != MEDIA or field == known.get(key):
            continue
        if key not in known:
            statements.append(f'ALTER TABLE core.media ADD COLUMN "{field.column_name}" {field.type}')
        elif field.type != known[key].type:
            statements.append(f'ALTER TABLE core.media ALTER COLUMN "{field.column_name}" TYPE {field.type}')
    return statements
