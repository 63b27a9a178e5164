"""Which structures many items have: one example of each, without asking for the structure of every item.

Naming the structure of an item takes DuckDB as long as reading all its fields several times over. Of items in which
nothing but known fields stands, the types at those fields say as much.
"""

from collections.abc import Collection, Sequence

from connectors.warehouse.readings import field_at, path_list
from models.fields import AND_MORE, Field
from models.kinds import Kind
from models.pointer import through_objects, to_keys, to_pointer

_IN_LISTS = frozenset(
    {Kind.EMPTY_LIST, Kind.BOOLEANS, Kind.INTEGERS, Kind.WIDES, Kind.NUMBERS, Kind.TEXTS, Kind.ROWS, Kind.MIXED}
)

_STRUCTURE = "json_structure({0})::VARCHAR"


def _places(paths: Sequence[str], wanted: Collection[str]) -> str:
    chosen = [f"types[{place}]" for place, path in enumerate(paths, 1) if path in wanted]
    return f"[{', '.join(chosen)}]::VARCHAR[]"


def signature(known: Sequence[Field]) -> tuple[str, str]:
    """Return two select lists, one to stand under the other: what is looked up in `payload`, and its `signature`.

    Items of one signature have one structure. Without a known field it is the structure itself.
    """
    paths = [field.path for field in known if field.path != AND_MORE]
    if not paths:
        return "payload", f"{_STRUCTURE.format('payload')} AS signature"
    kinds = {field.path: field.kinds.keys() for field in known}
    above = {to_pointer(to_keys(path)[:-1]) for path in paths}
    objects = [path for path in paths if path in above and Kind.OBJECT in kinds[path]]
    lists = [path for path in paths if kinds[path] & _IN_LISTS]
    # As many keys as known fields are there: then there is no other key, and none is written twice. What is an object
    # or a list here for the first time is looked into.
    count = " + ".join(f"coalesce(len(keys[{place}]), 0)" for place in range(1, len(objects) + 2))
    is_known = (
        f"{count} = list_count(types)"
        f" AND NOT list_contains({_places(paths, set(paths) - set(objects))}, 'OBJECT')"
        f" AND NOT list_contains({_places(paths, set(paths) - set(lists))}, 'ARRAY')"
    )
    places = {path: place for place, path in enumerate(paths, 1)}
    inner = "".join(
        f", CASE WHEN types[{places[path]}] = 'ARRAY'"
        f" THEN {_STRUCTURE.format(f'json_extract(payload, {field_at(path)})')} END"
        for path in lists
    )
    looked_up = (
        f"payload, json_type(payload, {path_list(list(map(through_objects, paths)))}) AS types,"
        f" json_keys(payload, {path_list(['', *map(through_objects, objects)])}) AS keys"
    )
    signed = f"CASE WHEN {is_known} THEN hash(types{inner}) ELSE hash({_STRUCTURE.format('payload')}) END AS signature"
    return looked_up, signed


def shapes_sql(relation: str, known: Sequence[Field]) -> str:
    """Return the query of the structures in a relation (payload, received_at, seq, position).

    One row for each, in the order of their first meeting, with the first instant at which it was met.
    """
    looked_up, signed = signature(known)
    return f"""
SELECT {_STRUCTURE.format("arg_min(payload, place)")} AS shape, min(received_at) AS met_at
FROM (
    SELECT payload, received_at, place, {signed}
    FROM (SELECT received_at, (seq, position) AS place, {looked_up} FROM ({relation}))
)
GROUP BY signature ORDER BY min(place)
"""  # noqa: S608 - paths are quoted
