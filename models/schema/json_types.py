"""The JSON types of a field's values, and the column type derived from them, in whichever order they were found."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from models.pointer import Keys
from models.times import is_instant

# Deeper objects stay JSON text: their column names would be too long to use.
DEEPEST = 8


class JsonType(StrEnum):
    """The JSON type of a value. INSTANT is a string that is a time with a zone (`is_instant`).

    LONG is an integer that a double cannot represent exactly, WIDE a number that fits neither 64 bits nor a double.

    SHADOWED and UNREADABLE are not types, but facts about a candidate path of a canonical column: an item had a value
    there and also at an earlier candidate, or the value could not be read.
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


_ONE_OF: Mapping[JsonType, str] = {
    JsonType.BOOLEAN: "BOOLEAN",
    JsonType.INTEGER: "BIGINT",
    JsonType.LONG: "BIGINT",
    JsonType.WIDE: "VARCHAR",
    JsonType.NUMBER: "DOUBLE",
    JsonType.TEXT: "VARCHAR",
    JsonType.INSTANT: "TIMESTAMP WITH TIME ZONE",
}

_LIST_OF: Mapping[JsonType, JsonType] = {
    JsonType.BOOLEAN: JsonType.BOOLEANS,
    JsonType.INTEGER: JsonType.INTEGERS,
    JsonType.LONG: JsonType.LONGS,
    JsonType.WIDE: JsonType.WIDES,
    JsonType.NUMBER: JsonType.NUMBERS,
    JsonType.INSTANT: JsonType.TEXTS,
    JsonType.TEXT: JsonType.TEXTS,
    JsonType.OBJECT: JsonType.ROWS,
}

# Lists whose elements are of one type; all numbers count as one type.
LISTS = frozenset(_LIST_OF.values())

# Of the lists of texts, the elements are texts.
_ELEMENT = {of_list: json_type for json_type, of_list in _LIST_OF.items() if json_type in _ONE_OF}

_NUMBERS = frozenset({JsonType.INTEGER, JsonType.LONG, JsonType.WIDE, JsonType.NUMBER})
_LISTS_OF_NUMBERS = frozenset(_LIST_OF[json_type] for json_type in _NUMBERS)

# What a column must hold: a column of one kind does not hold values of another, except as text.
_KIND: Mapping[JsonType, str] = {
    **dict.fromkeys(_ONE_OF, "scalar"),
    **dict.fromkeys(_ELEMENT, "list"),
    **{json_type: json_type for json_type in (JsonType.OBJECT, JsonType.ROWS, JsonType.MIXED)},
}


def _scalar(json_types: Collection[JsonType]) -> str:
    types = {_ONE_OF[json_type] for json_type in json_types}
    if len(types) == 1:
        return types.pop()
    # A long integer would lose digits in a double.
    return "DOUBLE" if set(json_types) == {JsonType.INTEGER, JsonType.NUMBER} else "VARCHAR"


def column_type(json_types: Collection[JsonType]) -> str | None:
    """Return the DuckDB type of a column that can hold values of all these JSON types.

    None if no column is needed: for null alone, for an object (its fields have columns), and for a list of objects (it
    has a table). Adding a JSON type can only widen the column type.
    """
    kinds = {_KIND[json_type] for json_type in json_types if json_type in _KIND}
    if JsonType.EMPTY_LIST in json_types and JsonType.ROWS not in kinds and kinds - {"list"}:
        kinds.add("list")
    if JsonType.MIXED in kinds or len(kinds) > 1:
        return "VARCHAR"
    if kinds == {"scalar"}:
        return _scalar({json_type for json_type in json_types if json_type in _ONE_OF})
    if kinds == {"list"}:
        return _scalar({_ELEMENT[json_type] for json_type in json_types if json_type in _ELEMENT}) + "[]"
    return None


# The types that JSON itself distinguishes, and unreadable values: a change between these is a change of type.
_SORT: Mapping[JsonType, str] = {
    **_KIND,
    **dict.fromkeys(_NUMBERS, "number"),
    JsonType.BOOLEAN: "boolean",
    JsonType.TEXT: "text",
    JsonType.INSTANT: "text",
    JsonType.UNREADABLE: "unreadable",
}


def type_changed_at(json_types: Mapping[JsonType, datetime]) -> datetime | None:
    """Return the last time at which a new type was found beside earlier ones; None while all values have one type.

    If the column's type changed, its last change was at this time. It need not change: when text becomes an object, the
    column remains VARCHAR.
    """
    changed: datetime | None = None
    before: tuple[str | None, set[str]] | None = None
    for at in sorted(set(json_types.values())):
        met = [json_type for json_type, since in json_types.items() if since <= at]
        after = (column_type(met), {_SORT[json_type] for json_type in met if json_type in _SORT})
        if before is not None and after != before:
            changed = at
        if after[1]:
            before = after
    return changed


class WideNumber(str):
    """The text of a number that a double cannot represent."""

    __slots__ = ()


Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

# A double represents every integer up to this one exactly.
EXACT = 2**53
_BIGINT = range(-(2**63), 2**63)


def number_text(value: float) -> str:
    """Return a number's text, the same for equal numbers: whole numbers below 2^53 have no fraction."""
    return str(int(value)) if abs(value) < EXACT and value == int(value) else repr(value)


def _integer(value: int) -> JsonType:
    if -EXACT <= value <= EXACT:
        return JsonType.INTEGER
    return JsonType.LONG if value in _BIGINT else JsonType.WIDE


_OF_CLASS: Mapping[type, JsonType] = {
    type(None): JsonType.NULL,
    bool: JsonType.BOOLEAN,
    float: JsonType.NUMBER,
    WideNumber: JsonType.WIDE,
    dict: JsonType.OBJECT,
}


def json_type_of(value: Json) -> JsonType:
    """Return the JSON type of a value that is not a list."""
    if isinstance(value, str) and not isinstance(value, WideNumber):
        return JsonType.INSTANT if is_instant(value) else JsonType.TEXT
    if isinstance(value, int) and not isinstance(value, bool):
        return _integer(value)
    return _OF_CLASS[type(value)]


def json_types_of_list(elements: Iterable[Json]) -> frozenset[JsonType]:
    """Return the JSON types of a list: one, or several if its elements are numbers of different types."""
    values = [element for element in elements if element is not None]
    if any(isinstance(value, list) for value in values):
        return frozenset({JsonType.MIXED})
    json_types = frozenset(_LIST_OF[json_type_of(value)] for value in values)
    if not json_types:
        return frozenset({JsonType.EMPTY_LIST})
    return json_types if len(json_types) == 1 or json_types <= _LISTS_OF_NUMBERS else frozenset({JsonType.MIXED})


@dataclass(frozen=True, slots=True)
class Found:
    """A value at a path of an item, and its JSON types."""

    keys: Keys
    json_types: frozenset[JsonType]
    value: Json


def values_of(item: Mapping[str, Json], above: Keys = (), *, in_element: bool = False) -> Iterator[Found]:
    """Yield every value in an item with its path, in document order; an object precedes its members.

    In an element of a list (`in_element`), nested lists of objects remain JSON text. Keys with a NUL character are
    skipped, because no query can refer to them.
    """
    for key, value in item.items():
        if "\0" in key:
            continue
        keys = (*above, key)
        if isinstance(value, dict):
            too_deep = len(keys) >= DEEPEST and bool(value)
            yield Found(keys, frozenset({JsonType.MIXED if too_deep else JsonType.OBJECT}), value)
            if not too_deep:
                yield from values_of(value, keys, in_element=in_element)
        elif isinstance(value, list):
            json_types = json_types_of_list(value)
            yield Found(
                keys, frozenset({JsonType.MIXED}) if in_element and JsonType.ROWS in json_types else json_types, value
            )
        else:
            yield Found(keys, frozenset({json_type_of(value)}), value)
