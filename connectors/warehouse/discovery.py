"""Discovery: which fields the new and changed items carry, and what kinds of value are in them.

Shapes come from DuckDB, one row per distinct structure; what follows from them is decided by pure functions.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from connectors.warehouse.readings import READINGS, field_list
from connectors.warehouse.sources import elements_sql
from models.fields import MEDIA, OwnNames, Registry, Sighting, register
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


# Kinds whose values must be looked at: a text may be an instant, an integer too wide for 64 bits.
_LOOK = {
    Kind.TEXT: Kind.TEXT,
    Kind.INTEGER: Kind.WIDE,
    Kind.NUMBER: Kind.WIDE,
    Kind.INTEGERS: Kind.WIDES,
    Kind.NUMBERS: Kind.WIDES,
}

_INSTANT = '"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)"'
_UNQUOTED = "CASE WHEN v[1] = '\"' THEN json_extract_string(v, '$') ELSE v END"
_IS_INSTANT = f"regexp_full_match(v, '{_INSTANT}') AND ({READINGS[Reading.TIMESTAMP].format('v[2:-2]')}) IS NOT NULL"
_IS_WIDE = "regexp_full_match(v, '-?[0-9]{19,}') AND TRY_CAST(v AS BIGINT) IS NULL"
_HAS_WIDE = (
    "regexp_full_match(v, '\\[[^\\[\\]{}\"tf]*\\]') AND len(list_filter(from_json(v, '[\"VARCHAR\"]'),"
    " lambda x: regexp_full_match(x, '-?[0-9]{19,}') AND TRY_CAST(x AS BIGINT) IS NULL)) > 0"
)


def _unreadable(columns: Sequence[ColumnMapping], paths: Sequence[str]) -> str:
    readings = {path: column.reading for column in columns for path in column.paths}
    tests = [
        f"WHEN p = {place} THEN ({READINGS[readings[path]].format(f'({_UNQUOTED})')}) IS NULL"
        for place, path in enumerate(paths)
        if path in readings and readings[path] is not Reading.TEXT
    ]
    return f"v <> '\"\"' AND CASE {' '.join(tests)} ELSE false END" if tests else "false"


def _look(
    connection: Connection, relation: str, paths: Sequence[str], columns: Sequence[ColumnMapping]
) -> dict[str, dict[Kind, datetime]]:
    """Return when each of these paths first showed a kind that only its values tell."""
    if not paths:
        return {}
    rows = connection.exec_driver_sql(
        f"""
WITH texts AS (
    SELECT received_at, unnest(json_extract(payload, {field_list(paths)})::VARCHAR[]) AS v,
        unnest(range({len(paths)})) AS p
    FROM ({relation})
)
SELECT
    p,
    min(received_at) FILTER (v[1] = '"' AND ({_IS_INSTANT})),
    min(received_at) FILTER (v[1] = '"' AND ({_IS_INSTANT}) IS NOT TRUE),
    min(received_at) FILTER ({_IS_WIDE}),
    min(received_at) FILTER ({_HAS_WIDE}),
    min(received_at) FILTER ({_unreadable(columns, paths)})
FROM texts WHERE v <> 'null' GROUP BY p
"""  # noqa: S608 - paths are quoted
    ).all()
    kinds = (Kind.INSTANT, Kind.TEXT, Kind.WIDE, Kind.WIDES, Kind.UNREADABLE)
    return {
        paths[row[0]]: {kind: at for kind, at in zip(kinds, row[1:], strict=True) if at is not None} for row in rows
    }


def _must_be_looked_at(
    seen: Sequence[_Seen], resource: str, known: Registry, readings: Mapping[str, Reading]
) -> list[str]:
    paths: dict[str, None] = {}
    for one in seen:
        field = known.get((resource, one.path))
        before = field.kinds if field is not None else {}
        tells = _LOOK.get(one.kind)
        judged = readings.get(one.path, Reading.TEXT) is not Reading.TEXT and one.kind is not Kind.NULL
        if (tells is not None and tells not in before) or (judged and Kind.UNREADABLE not in before):
            paths[one.path] = None
    return list(paths)


def _sightings(
    connection: Connection,
    resource: str,
    relation: str,
    seen: Sequence[_Seen],
    columns: Sequence[ColumnMapping],
    known: Registry,
) -> Iterator[Sighting]:
    readings = {path: column.reading for column in columns for path in column.paths}
    looked = _look(connection, relation, _must_be_looked_at(seen, resource, known, readings), columns)
    for one in seen:
        told = looked.get(one.path, {})
        # A path that was not looked at is known to hold text.
        if one.kind is not Kind.TEXT or not ({Kind.TEXT, Kind.INSTANT} & told.keys()):
            yield Sighting(resource, one.path, one.kind, one.at)
        for kind, at in told.items():
            yield Sighting(resource, one.path, kind, at)


_SHAPES = """
SELECT json_structure(payload)::VARCHAR AS shape, min(received_at) AS met_at
FROM ({relation}) GROUP BY shape ORDER BY min((seq, position))
"""


class _Shapes:
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


def _shapes(
    connection: Connection, relation: str, columns: Sequence[Sequence[str]], *, in_element: bool = False
) -> Sequence[_Seen]:
    shapes = _Shapes(columns)
    for text, at in connection.exec_driver_sql(_SHAPES.format(relation=relation)).all():
        if text is not None:
            shapes.add(json.loads(text), at, in_element=in_element)
    return shapes.seen


def discover(connection: Connection, relation: str, mapping: MediaMapping, known: Registry, own: OwnNames) -> Registry:
    """Return the registry with what the items of a relation (payload, received_at, seq, position) carry."""
    candidates = [mapping.media_id, *(column.paths for column in mapping.columns)]
    seen = _shapes(connection, relation, candidates)
    registry = register(known, _sightings(connection, MEDIA, relation, seen, mapping.columns, known), own)
    lists: dict[str, list[str]] = {}
    for one in seen:
        field = registry.get((MEDIA, one.path)) if one.kind is Kind.ROWS else None
        table = child_table(field, mapping) if field is not None else None
        if table is not None:
            lists.setdefault(table, []).append(one.path)
    items = f"SELECT payload, received_at, (seq, position) AS seq FROM ({relation})"  # noqa: S608 - our own query
    for table, paths in lists.items():
        columns: Sequence[ColumnMapping] = ()
        if table == CHILDREN:
            columns = mapping.child_columns
            paths.sort(key=mapping.children.index)
        children = elements_sql(items, paths, "received_at, seq")
        seen = _shapes(connection, children, [column.paths for column in columns], in_element=True)
        registry = register(registry, _sightings(connection, table, children, seen, columns, registry), own)
    return registry
