"""The registry of the fields found in items: their order, JSON types and column names. No IO."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from models.fields import safe_name, table_name, unique
from models.pointer import to_keys
from models.schema.json_types import LISTS, JsonType, column_type, type_changed_at

MEDIA = "media"

# Limits for each table: the first paths get columns, and the next ones are registered without a column. Payloads with
# data as keys ({"by_day": {"2026-01-01": 1, ...}}) must not make a table of ten thousand columns.
MOST_COLUMNS = 300
MOST_FIELDS = 600

# The columns of every child table that are not columns of its fields.
_OF_CHILDREN = frozenset({"account_id", "surface", "media_id", "position", "run_seq"})

# The path of a registry entry that means: there are more fields than MOST_FIELDS.
AND_MORE = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A path (JSON Pointer) of a resource (such as `media`, or a child table), and when it first had each JSON type.

    `name` is the name of its column; it only changes in a rebuild with a mapping that uses the name. `table` is the
    child table of a list of objects, once it exists.
    """

    resource: str
    path: str
    name: str
    ordinal: int
    json_types: Mapping[JsonType, datetime]
    table: str | None = None

    @property
    def type(self) -> str | None:
        """Return the type of the field's column; None if it needs none, or is past MOST_COLUMNS."""
        return column_type(self.json_types) if self.ordinal < MOST_COLUMNS else None

    @property
    def first_seen_at(self) -> datetime:
        """Return when the field was first found."""
        return min(self.json_types.values())

    @property
    def last_type_change_at(self) -> datetime | None:
        """Return when the field's type last changed, or None if it never did (see `type_changed_at`)."""
        return type_changed_at(self.json_types)


@dataclass(frozen=True, slots=True)
class FieldObservation:
    """A JSON type found at a path, first at a certain time."""

    resource: str
    path: str
    json_type: JsonType
    at: datetime


Registry = Mapping[tuple[str, str], Field]


@dataclass(frozen=True, slots=True)
class OwnNames:
    """Reserved names: the declared columns of each resource, and tables. `lists` are paths that need no new table."""

    columns: Mapping[str, Collection[str]]
    tables: Collection[str]
    lists: Collection[str]


# JSON types that decoding no longer reports once one of the others was found: they fit into its column.
_FITS_INTO: Mapping[JsonType, Collection[JsonType]] = {
    JsonType.NULL: frozenset(JsonType) - {JsonType.NULL, JsonType.SHADOWED, JsonType.UNREADABLE},
    JsonType.EMPTY_LIST: LISTS,
    JsonType.INSTANT: {JsonType.TEXT},
    JsonType.INTEGER: {JsonType.LONG, JsonType.NUMBER},
    JsonType.INTEGERS: {JsonType.LONGS, JsonType.NUMBERS},
}


def _noticed(json_types: Mapping[JsonType, datetime]) -> Mapping[JsonType, datetime]:
    """Return the JSON types without those that fit into one found no later: decoding does not report them."""
    return {
        json_type: at
        for json_type, at in json_types.items()
        if not any(wider in json_types and json_types[wider] <= at for wider in _FITS_INTO.get(json_type, ()))
    }


class _Register:
    """Builds a registry from a known one and observations."""

    def __init__(self, known: Registry, own: OwnNames) -> None:
        self.fields = dict(known)
        self._own = own
        self._tables = {*own.tables, *(field.table for field in known.values() if field.table is not None)}
        self._names: dict[str, set[str]] = {resource: set(names) for resource, names in own.columns.items()}
        self._counts: dict[str, int] = {}
        for field in known.values():
            self._of(field.resource).add(field.name)
            self._counts[field.resource] = self._counts.get(field.resource, 0) + (field.path != AND_MORE)

    def _of(self, resource: str) -> set[str]:
        return self._names.setdefault(resource, set(_OF_CHILDREN))

    def _new(self, seen: FieldObservation) -> Field | None:
        count = self._counts.get(seen.resource, 0)
        if count >= MOST_FIELDS:
            more = Field(seen.resource, AND_MORE, AND_MORE, count, {JsonType.NULL: seen.at})
            self.fields.setdefault((seen.resource, AND_MORE), more)
            return None
        self._counts[seen.resource] = count + 1
        name = unique(safe_name(to_keys(seen.path)), self._of(seen.resource))
        self._of(seen.resource).add(name)
        return Field(seen.resource, seen.path, name, count, {})

    def _table(self, field: Field) -> str | None:
        wants = JsonType.ROWS in field.json_types and field.ordinal < MOST_COLUMNS and field.path not in self._own.lists
        if field.table is not None or not wants:
            return field.table
        table = unique(table_name(field.resource, to_keys(field.path)), self._tables)
        self._tables.add(table)
        return table

    def meet(self, seen: FieldObservation) -> None:
        field = self.fields.get((seen.resource, seen.path)) or self._new(seen)
        if field is None:
            return
        if seen.json_type not in field.json_types or seen.at < field.json_types[seen.json_type]:
            field = replace(field, json_types=_noticed({**field.json_types, seen.json_type: seen.at}))
        table = self._table(field)
        self.fields[seen.resource, seen.path] = field if table == field.table else replace(field, table=table)


def register(known: Registry, observations: Iterable[FieldObservation], own: OwnNames) -> Registry:
    """Return the registry with the observations added; they must be in the order in which they were found."""
    registry = _Register(known, own)
    for seen in observations:
        registry.meet(seen)
    return registry.fields
