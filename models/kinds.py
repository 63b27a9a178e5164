"""The kinds of value a field has shown, and the column type that follows from them: pure, and the same in any order."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

Keys = tuple[str, ...]

# Deeper objects keep their JSON as text: nobody reads a column whose name is a sentence.
_DEEPEST = 8


class Kind(StrEnum):
    """A kind of value. INSTANT is a text that is a time with a zone.

    LONG is an integer that a double does not hold exactly, WIDE a number that neither 64 bits nor a double hold.

    SHADOWED and UNREADABLE are no kinds of value but facts of a canonical column's candidate path: that an item
    carried it beside a candidate that comes before it, and that its value could not be read.
    """

    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    LONG = "long integer"
    WIDE = "wide integer"
    NUMBER = "number"
    TEXT = "text"
    INSTANT = "instant"
    OBJECT = "object"
    EMPTY_LIST = "empty list"
    BOOLEANS = "list of booleans"
    INTEGERS = "list of integers"
    LONGS = "list of long integers"
    WIDES = "list of wide integers"
    NUMBERS = "list of numbers"
    TEXTS = "list of texts"
    ROWS = "list of objects"
    MIXED = "mixed list"
    SHADOWED = "shadowed"
    UNREADABLE = "unreadable"


class _Family(StrEnum):
    SCALAR = "scalar"
    OBJECT = "object"
    LIST = "list"
    ROWS = "rows"
    MIXED = "mixed"


_FAMILY: Mapping[Kind, _Family] = {
    Kind.BOOLEAN: _Family.SCALAR,
    Kind.INTEGER: _Family.SCALAR,
    Kind.LONG: _Family.SCALAR,
    Kind.WIDE: _Family.SCALAR,
    Kind.NUMBER: _Family.SCALAR,
    Kind.TEXT: _Family.SCALAR,
    Kind.INSTANT: _Family.SCALAR,
    Kind.OBJECT: _Family.OBJECT,
    Kind.BOOLEANS: _Family.LIST,
    Kind.INTEGERS: _Family.LIST,
    Kind.LONGS: _Family.LIST,
    Kind.WIDES: _Family.LIST,
    Kind.NUMBERS: _Family.LIST,
    Kind.TEXTS: _Family.LIST,
    Kind.ROWS: _Family.ROWS,
    Kind.MIXED: _Family.MIXED,
}

_ELEMENT: Mapping[Kind, Kind] = {
    Kind.BOOLEANS: Kind.BOOLEAN,
    Kind.INTEGERS: Kind.INTEGER,
    Kind.LONGS: Kind.LONG,
    Kind.WIDES: Kind.WIDE,
    Kind.NUMBERS: Kind.NUMBER,
    Kind.TEXTS: Kind.TEXT,
}

# Lists whose elements are of one type; numbers are one.
LISTS = frozenset({*_ELEMENT, Kind.ROWS})

_ONE_OF: Mapping[Kind, str] = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "BIGINT",
    Kind.LONG: "BIGINT",
    Kind.WIDE: "VARCHAR",
    Kind.NUMBER: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.INSTANT: "TIMESTAMP WITH TIME ZONE",
}


def _scalar(kinds: Collection[Kind]) -> str:
    types = {_ONE_OF[kind] for kind in kinds}
    if len(types) == 1:
        return types.pop()
    # A long integer would lose digits in a double.
    return "DOUBLE" if set(kinds) == {Kind.INTEGER, Kind.NUMBER} else "VARCHAR"


def column_type(kinds: Collection[Kind]) -> str | None:
    """Return the DuckDB type of the column that holds all these kinds of value.

    None when none is needed: nothing but null was met, an object (its fields have columns), a list of objects (they
    have a table). Adding a kind only ever widens the type.
    """
    families = {_FAMILY[kind] for kind in kinds if kind in _FAMILY}
    if Kind.EMPTY_LIST in kinds and _Family.ROWS not in families and families - {_Family.LIST}:
        families.add(_Family.LIST)
    if _Family.MIXED in families or len(families) > 1:
        return "VARCHAR"
    if families == {_Family.SCALAR}:
        return _scalar({kind for kind in kinds if kind in _ONE_OF})
    if families == {_Family.LIST}:
        return _scalar({_ELEMENT[kind] for kind in kinds if kind in _ELEMENT}) + "[]"
    return None


# What JSON itself tells apart, and what its reader could not read: a change between these is one of type.
_SORT: Mapping[Kind, str] = {
    **_FAMILY,
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "number",
    Kind.LONG: "number",
    Kind.WIDE: "number",
    Kind.NUMBER: "number",
    Kind.TEXT: "text",
    Kind.INSTANT: "text",
    Kind.UNREADABLE: "unreadable",
}


def type_changed_at(kinds: Mapping[Kind, datetime]) -> datetime | None:
    """Return when values of another type were last met there for the first time; None while they all agreed.

    That is also when the column's type changed, if it did: text that becomes an object leaves it VARCHAR.
    """
    changed: datetime | None = None
    before: tuple[str | None, set[str]] | None = None
    for at in sorted(set(kinds.values())):
        met = [kind for kind, since in kinds.items() if since <= at]
        after = (column_type(met), {_SORT[kind] for kind in met if kind in _SORT})
        if before is not None and after != before:
            changed = at
        if after[1]:
            before = after
    return changed


class WideNumber(str):
    """The text of a number that a double does not hold."""

    __slots__ = ()


Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

# A double holds every integer up to here.
EXACT = 2**53
_BIGINT = range(-(2**63), 2**63)

_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
)


def is_instant(text: str) -> bool:
    """Say whether a text is a time with a zone, within Python's years."""
    if len(text) < _SHORTEST_INSTANT or _INSTANT.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


_SHORTEST_INSTANT = len("2026-01-01T00:00Z")


def _integer(value: int) -> Kind:
    if -EXACT <= value <= EXACT:
        return Kind.INTEGER
    return Kind.LONG if value in _BIGINT else Kind.WIDE


_OF_CLASS: Mapping[type, Kind] = {
    type(None): Kind.NULL,
    bool: Kind.BOOLEAN,
    float: Kind.NUMBER,
    WideNumber: Kind.WIDE,
    dict: Kind.OBJECT,
}

_LIST_OF: Mapping[Kind, Kind] = {
    Kind.BOOLEAN: Kind.BOOLEANS,
    Kind.INTEGER: Kind.INTEGERS,
    Kind.LONG: Kind.LONGS,
    Kind.WIDE: Kind.WIDES,
    Kind.NUMBER: Kind.NUMBERS,
    Kind.TEXT: Kind.TEXTS,
    Kind.INSTANT: Kind.TEXTS,
    Kind.OBJECT: Kind.ROWS,
}

_NUMBERS = frozenset({Kind.INTEGERS, Kind.LONGS, Kind.WIDES, Kind.NUMBERS})


def kind_of(value: Json) -> Kind:
    """Return the kind of a value that is no list."""
    if isinstance(value, str) and not isinstance(value, WideNumber):
        return Kind.INSTANT if is_instant(value) else Kind.TEXT
    if isinstance(value, int) and not isinstance(value, bool):
        return _integer(value)
    return _OF_CLASS[type(value)]


def kinds_of_list(elements: Iterable[Json]) -> frozenset[Kind]:
    """Return the kinds of a list: one, or those of its numbers."""
    values = [element for element in elements if element is not None]
    if any(isinstance(value, list) for value in values):
        return frozenset({Kind.MIXED})
    kinds = frozenset(_LIST_OF[kind_of(value)] for value in values)
    if not kinds:
        return frozenset({Kind.EMPTY_LIST})
    return kinds if len(kinds) == 1 or kinds <= _NUMBERS else frozenset({Kind.MIXED})


@dataclass(frozen=True, slots=True)
class Found:
    """A value at a path of an item, and its kinds."""

    keys: Keys
    kinds: frozenset[Kind]
    value: Json


def values_of(item: Mapping[str, Json], above: Keys = (), *, in_element: bool = False) -> Iterator[Found]:
    """Yield every value in an item with its path, in the order of its text; objects come before what is in them.

    In the element of a list (`in_element`) lists of further objects stay JSON text. A key with a NUL character, which
    no query can name, is passed over.
    """
    for key, value in item.items():
        if "\0" in key:
            continue
        keys = (*above, key)
        if isinstance(value, dict):
            too_deep = len(keys) >= _DEEPEST and bool(value)
            yield Found(keys, frozenset({Kind.MIXED if too_deep else Kind.OBJECT}), value)
            if not too_deep:
                yield from values_of(value, keys, in_element=in_element)
        elif isinstance(value, list):
            kinds = kinds_of_list(value)
            yield Found(keys, frozenset({Kind.MIXED}) if in_element and Kind.ROWS in kinds else kinds, value)
        else:
            yield Found(keys, frozenset({kind_of(value)}), value)
