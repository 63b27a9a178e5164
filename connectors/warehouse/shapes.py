"""Which structures many items have: one example of each, without asking for the structure of every item.

Naming the structure of an item takes DuckDB as long as reading all its fields several times over. Of items in which
nothing but known fields stands, the types at those fields say as much.
"""

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duckdb import DuckDBPyConnection

from connectors.warehouse.readings import field_at, path_list
from models.fields import AND_MORE, Field
from models.kinds import Kind
from models.pointer import through_objects, to_keys, to_pointer

_IN_LISTS = frozenset(
    {Kind.EMPTY_LIST, Kind.BOOLEANS, Kind.INTEGERS, Kind.WIDES, Kind.NUMBERS, Kind.TEXTS, Kind.ROWS, Kind.MIXED}
)

_STRUCTURE = "json_structure({0})::VARCHAR"

# So many signatures are worth an example each. Items of more have keys that are data, and are asked one by one.
_MOST_SIGNATURES = 1000


def _places(paths: Sequence[str], wanted: Collection[str]) -> str:
    chosen = [f"types[{place}]" for place, path in enumerate(paths, 1) if path in wanted]
    return f"[{', '.join(chosen)}]::VARCHAR[]"


@dataclass(frozen=True, slots=True)
class _Signature:
    """What stands for the structure of an item in which nothing but known fields stands.

    Three pieces of SQL: what is looked up in `payload`, and then out of that the signature, and whether the item is
    such a one. That is the same for all items of one signature, and dearer.
    """

    looked_up: str
    value: str
    is_known: str


def _signature(paths: Sequence[str], kinds: Sequence[AbstractSet[Kind]]) -> _Signature:
    met = dict(zip(paths, kinds, strict=True))
    above = {to_pointer(to_keys(path)[:-1]) for path in paths}
    objects = [path for path in paths if path in above and Kind.OBJECT in met[path]]
    lists = [path for path in paths if met[path] & _IN_LISTS]
    key_count = " + ".join(f"coalesce(len(keys[{place}]), 0)" for place in range(1, len(objects) + 2))
    inner = "".join(
        f", CASE WHEN types[{place}] = 'ARRAY' THEN {_STRUCTURE.format(f'json_extract(payload, {field_at(path)})')} END"
        for place, path in enumerate(paths, 1)
        if path in lists
    )
    return _Signature(
        f"json_type(payload, {path_list(list(map(through_objects, paths)))}) AS types,"
        f" json_keys(payload, {path_list(['', *map(through_objects, objects)])}) AS keys",
        f"hash(types, {key_count}{inner})",
        # As many keys as known fields are there: then there is no other key, and none is written twice. What is an
        # object or a list here for the first time is looked into.
        f"{key_count} = list_count(types)"
        f" AND NOT list_contains({_places(paths, set(paths) - set(objects))}, 'OBJECT')"
        f" AND NOT list_contains({_places(paths, set(paths) - set(lists))}, 'ARRAY')",
    )


def _by_structure(db: DuckDBPyConnection, relation: str) -> list[tuple[Any, ...]]:
    query = f"""
SELECT {_STRUCTURE.format("payload")} AS shape, min(received_at), min(place) FROM ({relation}) GROUP BY shape
"""  # noqa: S608 - our own query
    return db.execute(query).fetchall()


def _by_signature(db: DuckDBPyConnection, relation: str, by: _Signature) -> list[tuple[Any, ...]]:
    signed = f"""
SELECT payload, received_at, place, {by.value} AS signature FROM (SELECT *, {by.looked_up} FROM ({relation}))
"""  # noqa: S608 - paths are quoted
    examples = f"""
WITH examples AS (
    SELECT signature, arg_min(payload, place) AS payload, min(received_at) AS met_at, min(place) AS place
    FROM ({signed}) GROUP BY signature
)
SELECT signature, {by.is_known}, {_STRUCTURE.format("payload")}, met_at, place
FROM (SELECT *, {by.looked_up} FROM examples LIMIT {_MOST_SIGNATURES + 1})
"""  # noqa: S608
    rows = db.execute(examples).fetchall()
    if len(rows) > _MOST_SIGNATURES:
        return _by_structure(db, relation)
    strange = [str(signature) for signature, is_known, *_ in rows if not is_known]
    found = [tuple(one) for _, is_known, *one in rows if is_known]
    if strange:
        found += _by_structure(db, f"FROM ({signed}) WHERE signature IN ({', '.join(strange)})")
    return found


def shapes(db: DuckDBPyConnection, relation: str, known: Sequence[Field]) -> list[tuple[str, datetime]]:
    """Return the structures in a relation (payload, received_at, place), each with the first instant it was met at.

    They come in the order of the first places; a place is whatever orders the items. The relation, which has no other
    column, may be read twice, and must say the same both times. Raises duckdb.Error.
    """
    fields = [field for field in known if field.path != AND_MORE]
    if fields:
        by = _signature([field.path for field in fields], [field.kinds.keys() for field in fields])
        found = _by_signature(db, relation, by)
    else:
        found = _by_structure(db, relation)
    return [(shape, met_at) for shape, met_at, _ in sorted(found, key=lambda one: one[2])]
