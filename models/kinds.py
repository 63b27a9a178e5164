"""The kinds of value a field has shown, and the column type that follows from them: pure, and the same in any order."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

Keys = tuple[str, ...]

# DuckDB's names of what it finds in JSON (json_structure): text by text, and numbers by the smallest type that holds
# them. "JSON" is an empty object, or within a list values that agree in nothing.
Structure = str | list["Structure"] | dict[str, "Structure"]

# Deeper objects keep their JSON as text: nobody reads a column whose name is a sentence.
_DEEPEST = 8


class Kind(StrEnum):
    """A kind of value. WIDE is an integer that 64 bits do not hold; INSTANT a text that is a time with a zone.

    SHADOWED and UNREADABLE are no kinds of value but facts of a canonical column's candidate path: that an item
    carried it beside a candidate that comes before it, and that its value could not be read.
    """

    NULL = "null"
    BOOLEAN = "boolean"
    INTEGER = "integer"
    WIDE = "wide integer"
    NUMBER = "number"
    TEXT = "text"
    INSTANT = "instant"
    OBJECT = "object"
    EMPTY_LIST = "empty list"
    BOOLEANS = "list of booleans"
    INTEGERS = "list of integers"
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
    Kind.WIDE: _Family.SCALAR,
    Kind.NUMBER: _Family.SCALAR,
    Kind.TEXT: _Family.SCALAR,
    Kind.INSTANT: _Family.SCALAR,
    Kind.OBJECT: _Family.OBJECT,
    Kind.BOOLEANS: _Family.LIST,
    Kind.INTEGERS: _Family.LIST,
    Kind.WIDES: _Family.LIST,
    Kind.NUMBERS: _Family.LIST,
    Kind.TEXTS: _Family.LIST,
    Kind.ROWS: _Family.ROWS,
    Kind.MIXED: _Family.MIXED,
}

_ELEMENT: Mapping[Kind, Kind] = {
    Kind.BOOLEANS: Kind.BOOLEAN,
    Kind.INTEGERS: Kind.INTEGER,
    Kind.WIDES: Kind.WIDE,
    Kind.NUMBERS: Kind.NUMBER,
    Kind.TEXTS: Kind.TEXT,
}

_ONE_OF: Mapping[Kind, str] = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "BIGINT",
    Kind.WIDE: "VARCHAR",
    Kind.NUMBER: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.INSTANT: "TIMESTAMP WITH TIME ZONE",
}


def _scalar(kinds: Collection[Kind]) -> str:
    if len(kinds) == 1:
        return _ONE_OF[next(iter(kinds))]
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


@dataclass(frozen=True, slots=True)
class Met:
    """A kind of value that was met at a path of an item."""

    keys: Keys
    kind: Kind


_SCALARS: Mapping[str, Kind] = {
    "NULL": Kind.NULL,
    "BOOLEAN": Kind.BOOLEAN,
    "BIGINT": Kind.INTEGER,
    "UBIGINT": Kind.INTEGER,
    "HUGEINT": Kind.INTEGER,
    "UHUGEINT": Kind.INTEGER,
    "DOUBLE": Kind.NUMBER,
    "VARCHAR": Kind.TEXT,
    "JSON": Kind.OBJECT,
}

_LISTS: Mapping[str, Kind] = {
    "NULL": Kind.EMPTY_LIST,
    "BOOLEAN": Kind.BOOLEANS,
    "BIGINT": Kind.INTEGERS,
    "UBIGINT": Kind.INTEGERS,
    "HUGEINT": Kind.INTEGERS,
    "UHUGEINT": Kind.INTEGERS,
    "DOUBLE": Kind.NUMBERS,
    "VARCHAR": Kind.TEXTS,
    "JSON": Kind.MIXED,
}


def walk(structure: Structure, above: Keys = (), *, in_element: bool = False) -> Iterator[Met]:
    """Yield what is met in an item of this structure, in the order of its text; the item itself is not yielded.

    In the element of a list (`in_element`) lists of further objects stay JSON text. A key with a NUL character, which
    no query can name, is passed over.
    """
    if not isinstance(structure, dict):
        return
    for key, inner in structure.items():
        if "\0" in key:
            continue
        keys = (*above, key)
        if isinstance(inner, dict):
            too_deep = len(keys) >= _DEEPEST
            yield Met(keys, Kind.MIXED if too_deep else Kind.OBJECT)
            if not too_deep:
                yield from walk(inner, keys, in_element=in_element)
        elif isinstance(inner, list):
            yield _list(keys, inner[0], in_element=in_element)
        else:
            yield Met(keys, _SCALARS.get(inner, Kind.MIXED))


def _list(keys: Keys, element: Structure, *, in_element: bool) -> Met:
    if isinstance(element, str):
        return Met(keys, _LISTS.get(element, Kind.MIXED))
    if isinstance(element, dict) and not in_element:
        return Met(keys, Kind.ROWS)
    return Met(keys, Kind.MIXED)
