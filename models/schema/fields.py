"""The registry of fields: what was met in media items, in which order, and the name each field got. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from models.schema.json_types import LISTS, JsonType, column_type, type_changed_at
from models.schema.naming import safe_name, table_name, unique
from models.schema.pointer import to_keys

MEDIA = "media"

# Of each table, so many paths get columns, and as many more are at least registered: payloads keyed by data
# ({"by_day": {"2026-01-01": 1, ...}}) must not make a table of ten thousand columns.
MOST_COLUMNS = 300
MOST_FIELDS = 600

# What every child table has before its fields' columns.
_CHILD_KEY = frozenset({"account_id", "surface", "media_id", "position"})

# The path of the one row that says that there are more.
AND_MORE = ""


@dataclass(frozen=True, slots=True)
class Field:
    """A path (JSON Pointer) of a resource (`media`, or a child table), and the kinds of value met there, since when.

    `name` is its column's, given for ever. `table` is the child table of a list of objects, once it has one.
    """

    resource: str
    path: str
    name: str
    ordinal: int
    json_types: Mapping[JsonType, datetime]
    table: str | None = None

    @property
    def type(self) -> str | None:
        """Return the type of the column that holds it; None when it needs none, or is past MOST_COLUMNS."""
        return column_type(self.json_types) if self.ordinal < MOST_COLUMNS else None

    @property
    def first_seen_at(self) -> datetime:
        """Return when it was first met."""
        return min(self.json_types.values())

    @property
    def last_type_change_at(self) -> datetime | None:
        """Return when its type last widened."""
        return type_changed_at(self.json_types)


@dataclass(frozen=True, slots=True)
class FieldObservation:
    """A kind of value met at a path, first at an instant."""

    resource: str
    path: str
    json_type: JsonType
    at: datetime


Registry = Mapping[tuple[str, str], Field]


@dataclass(frozen=True, slots=True)
class OwnNames:
    """The names that are not free: of each resource's own columns, and of tables; and the lists that need no table."""

    columns: Mapping[str, Collection[str]]
    tables: Collection[str]
    lists: Collection[str]


# Kinds that are not looked for once one of the others was met: they fit into its column.
_FITS_INTO: Mapping[JsonType, Collection[JsonType]] = {
    JsonType.NULL: frozenset(JsonType) - {JsonType.NULL, JsonType.SHADOWED, JsonType.UNREADABLE},
    JsonType.EMPTY_LIST: LISTS,
    JsonType.INSTANT: {JsonType.TEXT},
    JsonType.INTEGER: {JsonType.LONG, JsonType.NUMBER},
    JsonType.INTEGERS: {JsonType.LONGS, JsonType.NUMBERS},
}


def _noticed(json_types: Mapping[JsonType, datetime]) -> Mapping[JsonType, datetime]:
    """Return the kinds without those that one of at least their age has room for: no decoder notices them."""
    return {
        json_type: at
        for json_type, at in json_types.items()
        if not any(wider in json_types and json_types[wider] <= at for wider in _FITS_INTO.get(json_type, ()))
    }


class _Register:
    """A registry in the making."""

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
        return self._names.setdefault(resource, set(_CHILD_KEY))

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
        table = unique(table_name(to_keys(field.path)), self._tables)
        self._tables.add(table)
        return table

    def meet(self, seen: FieldObservation) -> None:
        field = self.fields.get((seen.resource, seen.path)) or self._new(seen)
        if field is None:
            return
        if seen.json_type not in field.json_types or seen.at < field.json_types[seen.json_type]:
            field = replace(field, json_types=_noticed({**field.json_types, seen.json_type: seen.at}))
        self.fields[seen.resource, seen.path] = replace(field, table=self._table(field))


def register(known: Registry, observations: Iterable[FieldObservation], own: OwnNames) -> Registry:
    """Return the registry with the observations, which are in the order in which they were found."""
    registry = _Register(known, own)
    for seen in observations:
        registry.meet(seen)
    return registry.fields
