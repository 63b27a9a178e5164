"""Discovery: which fields the new and changed items carry, and what kinds of value are in them.

Shapes come from DuckDB, one row per distinct structure; what follows from them is decided by pure functions.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from sqlalchemy import Connection

from connectors.warehouse.connection import duck
from connectors.warehouse.quoting import literal
from connectors.warehouse.readings import READINGS, field_list
from connectors.warehouse.shapes import shapes
from connectors.warehouse.sources import elements_sql
from models.fields import AND_MORE, MEDIA, MOST_FIELDS, Field, OwnNames, Registry, Sighting, register
from models.kinds import Kind, Structure, walk
from models.mapping import ColumnMapping, Reading
from models.mapping import Mapping as MediaMapping
from models.pointer import to_pointer
from models.sheets import CHILDREN, child_table, shadowed


@dataclass(frozen=True, slots=True)
class _Seen:
    """A kind met at a path, at first."""

    path: str
    kind: Kind
    at: datetime


_INSTANT = '"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)"'
_LIST_OF_NUMBERS = '\\[[^\\[\\]{}"tf]*\\]'


def _is_instant(value: str, read: str) -> str:
    # LIKE first: of a hundred texts it says no to most, at a tenth of what the pattern costs.
    alike = f"{value} LIKE '\"____-__-__%'"
    return f"{alike} AND regexp_full_match({value}, {literal(_INSTANT)}) AND {read} IS NOT NULL"


def _is_wide(value: str) -> str:
    return (
        f"length({value}) > 18 AND regexp_full_match({value}, '-?[0-9]{{19,}}') AND TRY_CAST({value} AS BIGINT) IS NULL"
    )


def _has_wide(value: str) -> str:
    elements = f"from_json({value}, '[\"VARCHAR\"]')"
    wides = f"list_filter({elements}, lambda x: {_is_wide('x')})"
    return f"length({value}) > 20 AND regexp_full_match({value}, {literal(_LIST_OF_NUMBERS)}) AND len({wides}) > 0"


# What the JSON of a value must be, and what it must be when it is read as an instant or by its mapping, for its path to
# have shown a kind that a structure does not tell.
_IS: Mapping[Kind, Callable[[str, str], str]] = {
    Kind.INSTANT: _is_instant,
    Kind.TEXT: lambda value, read: f"starts_with({value}, '\"') AND ({_is_instant(value, read)}) IS NOT TRUE",
    Kind.WIDE: lambda value, _: _is_wide(value),
    Kind.WIDES: lambda value, _: _has_wide(value),
    Kind.UNREADABLE: lambda value, read: f"{value} NOT IN ('null', '\"\"') AND {read} IS NULL",
}

# A text may be an instant, an integer too wide for 64 bits.
_MAY_BE: Mapping[Kind, tuple[Kind, ...]] = {
    Kind.TEXT: (Kind.INSTANT, Kind.TEXT),
    Kind.INTEGER: (Kind.WIDE,),
    Kind.NUMBER: (Kind.WIDE,),
    Kind.INTEGERS: (Kind.WIDES,),
    Kind.NUMBERS: (Kind.WIDES,),
}


def _look(
    connection: Connection, relation: str, wanted: Sequence[tuple[str, Kind]], readings: Mapping[str, Reading]
) -> dict[str, dict[Kind, datetime]]:
    """Return when each of these paths first showed a kind that only its values tell."""
    if not wanted:
        return {}
    paths = list(dict.fromkeys(path for path, _ in wanted))
    places = {path: place for place, path in enumerate(paths, 1)}
    read = {path: readings[path] for path, kind in wanted if kind is Kind.UNREADABLE}
    # Read once, whatever is asked of it. What no mapping reads is read where it looks like an instant, and only there.
    reads = "".join(f", {READINGS[how].format(f't{places[path]}')} AS r{places[path]}" for path, how in read.items())
    instant = READINGS[Reading.TIMESTAMP]
    tests = [
        _IS[kind](
            f"v[{places[path]}]::VARCHAR",
            f"r{places[path]}"
            if kind is Kind.UNREADABLE or read.get(path) is Reading.TIMESTAMP
            else f"({instant.format(f't{places[path]}')})",
        )
        for path, kind in wanted
    ]
    # Out of what was found, which is short, and not out of the payload once more.
    texts = "".join(f", json_extract_string(v[{place}], '') AS t{place}" for place in places.values())
    query = f"""
SELECT {", ".join(f"min(received_at) FILTER ({test})" for test in tests)}
FROM (
    SELECT *{reads}
    FROM (
        SELECT received_at, v{texts}
        FROM (SELECT received_at, json_extract(payload, {field_list(paths)}) AS v FROM ({relation}))
    )
)
"""  # noqa: S608 - paths are quoted
    (row,) = duck(connection).execute(query).fetchall()
    found: dict[str, dict[Kind, datetime]] = {}
    for (path, kind), met_at in zip(wanted, row, strict=True):
        if met_at is not None:
            found.setdefault(path, {})[kind] = met_at
    return found


def _to_look_for(
    seen: Sequence[_Seen], resource: str, known: Registry, readings: Mapping[str, Reading]
) -> list[tuple[str, Kind]]:
    wanted: dict[tuple[str, Kind], None] = {}
    for one in seen:
        field = known.get((resource, one.path))
        before = field.kinds if field is not None else {}
        kinds = [*_MAY_BE.get(one.kind, ())]
        # Once text was met there, that some of it is an instant changes nothing any more.
        if Kind.TEXT in before:
            kinds = [kind for kind in kinds if kind is not Kind.INSTANT]
        if one.kind is not Kind.NULL and readings.get(one.path, Reading.TEXT) is not Reading.TEXT:
            kinds.append(Kind.UNREADABLE)
        wanted.update({(one.path, kind): None for kind in kinds if kind not in before})
    return list(wanted)


def _kept(seen: Sequence[_Seen], resource: str, known: Registry) -> Sequence[_Seen]:
    """Return those whose path the registry knows, or still has room for: the others are not asked about."""
    room = MOST_FIELDS - sum(there == resource and path != AND_MORE for there, path in known)
    new = dict.fromkeys(one.path for one in seen if (resource, one.path) not in known)
    paths = set(islice(new, max(0, room)))
    return [one for one in seen if one.path in paths or (resource, one.path) in known]


def _sightings(
    connection: Connection,
    resource: str,
    relation: str,
    seen: Sequence[_Seen],
    columns: Sequence[ColumnMapping],
    known: Registry,
) -> Iterator[Sighting]:
    readings = {path: column.reading for column in columns for path in column.paths}
    kept = _kept(seen, resource, known)
    looked = _look(connection, relation, _to_look_for(kept, resource, known, readings), readings)
    for one in seen:
        told = looked.get(one.path, {})
        kind = _told_by_structure(one, known.get((resource, one.path)), told)
        if kind is not None:
            yield Sighting(resource, one.path, kind, one.at)
        for kind, at in told.items():
            yield Sighting(resource, one.path, kind, at)


def _told_by_structure(seen: _Seen, field: Field | None, told: Collection[Kind]) -> Kind | None:
    """Return the kind that was met at the time of a structure; None when only the values told."""
    before = field.kinds if field is not None else {}
    if seen.kind is not Kind.TEXT or Kind.TEXT in before:
        return seen.kind
    if Kind.INSTANT in before and Kind.TEXT not in told:
        return Kind.INSTANT
    return None if told else Kind.TEXT


class _Met:
    """What the structures of many items say together: each kind at each path once, in the order of its meeting."""

    def __init__(self, columns: Sequence[Sequence[str]]) -> None:
        self._seen: dict[tuple[str, Kind], _Seen] = {}
        self._columns = columns

    @property
    def seen(self) -> Sequence[_Seen]:
        return list(self._seen.values())

    def add(self, structure: Structure, at: datetime, *, in_element: bool) -> None:
        present: list[str] = []
        for met in walk(structure, in_element=in_element):
            path = to_pointer(met.keys)
            self._meet(path, met.kind, at)
            if met.kind not in (Kind.NULL, Kind.OBJECT, Kind.EMPTY_LIST, Kind.ROWS):
                present.append(path)
        for candidates in self._columns:
            for path in shadowed(candidates, present):
                self._meet(path, Kind.SHADOWED, at)

    def _meet(self, path: str, kind: Kind, at: datetime) -> None:
        before = self._seen.get((path, kind))
        self._seen[path, kind] = _Seen(path, kind, at if before is None else min(at, before.at))


def _met(
    connection: Connection,
    relation: str,
    columns: Sequence[Sequence[str]],
    known: Sequence[Field],
    *,
    in_element: bool = False,
) -> Sequence[_Seen]:
    met = _Met(columns)
    for text, at in shapes(duck(connection), relation, known):
        met.add(json.loads(text), at, in_element=in_element)
    return met.seen


def _of(resource: str, known: Registry) -> Sequence[Field]:
    return [field for (there, _), field in known.items() if there == resource]


def discover(connection: Connection, relation: str, mapping: MediaMapping, known: Registry, own: OwnNames) -> Registry:
    """Return the registry with what the items of a relation (payload, received_at, place) carry."""
    candidates = [mapping.media_id, *(column.paths for column in mapping.columns)]
    seen = _met(connection, relation, candidates, _of(MEDIA, known))
    registry = register(known, _sightings(connection, MEDIA, relation, seen, mapping.columns, known), own)
    lists: dict[str, list[str]] = {}
    for one in seen:
        field = registry.get((MEDIA, one.path)) if one.kind is Kind.ROWS else None
        table = child_table(field, mapping) if field is not None else None
        if table is not None:
            lists.setdefault(table, []).append(one.path)
    for table, paths in lists.items():
        columns: Sequence[ColumnMapping] = ()
        if table == CHILDREN:
            columns = mapping.child_columns
            paths.sort(key=mapping.children.index)
        elements = elements_sql(relation, paths, "received_at, place")
        children = f"SELECT payload, received_at, (place, position) AS place FROM ({elements})"  # noqa: S608 - our own
        candidates = [column.paths for column in columns]
        seen = _met(connection, children, candidates, _of(table, known), in_element=True)
        registry = register(registry, _sightings(connection, table, children, seen, columns, registry), own)
    return registry
