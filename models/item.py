"""One media record as an Item: its key, mapped columns, counts, other fields, and a hash of its content. No IO.

Everything that asks which id a record has, whether two records are the same, or what changed, asks here. The schema of
media items is not published (API 2), so a record may be any JSON.

- The **id** is at the first of the mapping's paths that has a text which is not empty, a number or a boolean. It is a
  text or an integer written as digits. A number with a fraction or an exponent is no id, because a program that rounds
  numbers makes one of several ids; neither is a boolean.
- A **mapped column** has the value of the first of its paths that can be read as its mapping says. Every other value is
  a **field**, named by its JSON Pointer: also that of a path which comes later, or cannot be read.
- A **count** is an integer of 64 bits, or text of digits, in a mapped count column or a field named like one. Counts
  are kept apart and never make a version; "1.2k" is content.
- An **address** is a text that begins with http:// or https://, wherever it stands outside of mapped columns, and the
  value of `media_url`. Its newest value is kept, and it never makes a version, unless the mapping's `content` names it.
- **Content** is all else, without what the mapping's `ignore` names, in canonical form: mapped columns by name, fields
  by path, both sorted; null, empty texts, objects and lists left out; numbers by value; text in Unicode's composed form
  (NFC). In a list every element keeps its place: one that has no content is null.

A change of these rules needs another CONTENT_RULE, or else every item would get a version.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Map
from datetime import datetime
from enum import Enum, auto
from functools import lru_cache
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from models.fields import FieldType
from models.mapping import ADDRESSES, Keys, Mapping, Reading, to_keys, to_pointer
from models.record import BIGINT, READ, RejectedItem, Scalar, as_count, as_text, decode_record, exact
from models.times import is_instant

# The number of the rules above; it is part of every content hash, and stored in the warehouse.
CONTENT_RULE = 1

# Objects below this many keys are JSON text: their column names would be too long to use.
_DEEPEST_COLUMN = 8

# A double represents every integer up to this one exactly.
_EXACT = 2**53

# More members of an object than these are looked up for every item: their keys are data, such as dates.
_MOST_MEMBERS = 1000

_ADDRESS = ("http://", "https://")

# Looking up a member of an enumeration takes as long as adding a value to an item.
_BOOLEAN, _INTEGER, _LONG, _NUMBER, _TIME, _TEXT, _LIST = FieldType

_canonical = msgspec.json.Encoder(order="sorted").encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Item(msgspec.Struct, frozen=True, gc=False):
    """A media record.

    `columns` are mapped columns by name, addresses included, without counts. `counts` are by the name of their mapped
    column, or by the path of their field. `fields` are all other values by path, addresses included; a list is JSON
    text with sorted keys. `types` has the types of `fields` and of counts that are no mapped column. What is null or
    empty is absent. `content` is the canonical content, a JSON object with sorted keys, and `content_hash` the 64 bits
    of its XXH3 with CONTENT_RULE as the seed.
    """

    media_id: str
    columns: dict[str, Scalar | datetime]
    counts: dict[str, int]
    fields: dict[str, Scalar]
    types: dict[str, FieldType]
    content: bytes
    content_hash: int


def read_item(raw: bytes | msgspec.Raw, mapping: Mapping) -> Item:
    """Return the item that a media record is. Raises RejectedItem."""
    record = decode_record(bytes(raw))
    rules = _rules(mapping)
    media_id, id_path = rules.id_of(record)
    draft = _Draft()
    draft.add_members(record, rules.record, 1)
    for values in (draft.fields, draft.types, draft.content):
        values.pop(id_path, None)
    content = _canonical(draft.content)
    content_hash = xxh3_64_intdigest(content, CONTENT_RULE)
    return Item(media_id, draft.columns, draft.counts, draft.fields, draft.types, content, content_hash)


def find_id(record: object, mapping: Mapping) -> str | None:
    """Return the id of a decoded record, of which the members with ids are enough; None if it has none."""
    try:
        return _rules(mapping).id_of(record)[0]
    except RejectedItem:
        return None


def find_time(record: object, mapping: Mapping) -> datetime | None:
    """Return when a decoded record says that it was published; None if it does not."""
    found: datetime | None = _rules(mapping).first(record, "published_at")
    return found


def changed_columns(before: bytes, after: bytes) -> tuple[str, ...]:
    """Return what differs between the `content` of two items: names of mapped columns and paths of fields, sorted."""
    one, other = _members.decode(before), _members.decode(after)
    return tuple(sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name)))


_Read = Callable[[object], Scalar | datetime | None]


class _Part(Enum):
    """What the value of a mapped column is."""

    CONTENT = auto()
    COUNT = auto()
    NEITHER = auto()


_CONTENT, _COUNT, _NEITHER = _Part

# A mapped column that may have a place's value, the rank of the place in it, of which the least counts, and the rest.
_Column = tuple[str, int, _Read, _Part]


class _Place(dict[str, "_Place"]):
    """What the rules say of a path, found out once for all items, and the places of its members by key.

    The elements of a list have the path of their list. They and what is in them are in no mapped column.
    """

    __slots__ = (
        "_elements",
        "_in_list",
        "_rules",
        "columns",
        "is_content",
        "is_count",
        "is_ignored",
        "key",
        "path",
        "stable_path",
    )

    def __init__(self, rules: "_Rules", path: str = "", key: str = "", *, in_list: bool = False) -> None:
        super().__init__()
        self._rules, self.path, self._in_list = rules, path, in_list
        self.key, self.stable_path = _by_value(key), _by_value(path)
        self.is_ignored = rules.ignored.fullmatch(path) is not None
        self.is_content = rules.content.fullmatch(path) is not None
        self.is_count = rules.count_key.fullmatch(key) is not None and not self.is_ignored
        self.columns = () if in_list else rules.columns_at(path, self)
        self._elements: _Place | None = self if in_list else None

    def __missing__(self, key: str) -> "_Place":
        place = _Place(self._rules, self.path + to_pointer((key,)), key, in_list=self._in_list)
        if len(self) < _MOST_MEMBERS:
            self[key] = place
        return place

    @property
    def elements(self) -> "_Place":
        if self._elements is None:
            self._elements = _Place(self._rules, self.path, in_list=True)
        return self._elements


class _Rules:
    """A mapping, compiled."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping
        self._ids = [(to_keys(path), path) for path in mapping.media_id]
        self._paths = {
            column.column: [(to_keys(path), READ[column.reading]) for path in column.paths]
            for column in mapping.columns
        }
        self.count_key = re.compile(mapping.count_key_pattern)
        self.ignored, self.content = _pattern(mapping.ignore), _pattern(mapping.content)
        self.record = _Place(self)

    def columns_at(self, path: str, place: _Place) -> tuple[_Column, ...]:
        """Return the mapped columns that may have the value at a path."""
        found = []
        for column in self._mapping.columns:
            if path in column.paths:
                if place.is_ignored or (column.column in ADDRESSES and not place.is_content):
                    part = _NEITHER
                else:
                    part = _COUNT if column.reading is Reading.COUNT else _CONTENT
                found.append((column.column, column.paths.index(path), READ[column.reading], part))
        return tuple(found)

    def id_of(self, record: object) -> tuple[str, str]:
        """Return the id of a record, and its path. Raises RejectedItem."""
        for keys, path in self._ids:
            value = _at(record, keys)
            kind = type(value)
            if kind is str and value:
                return value, path
            if kind is int or kind is msgspec.Raw:
                return str(as_text(value)), path
            if kind is float or kind is bool:
                raise RejectedItem("inexact_id")
        raise RejectedItem("no_id")

    def first(self, record: object, column: str) -> Any:  # noqa: ANN401 - as the column is read
        """Return the value of a mapped column; None if the record has none that can be read."""
        for keys, read in self._paths.get(column, ()):
            if (found := read(_at(record, keys))) is not None:
                return found
        return None


def _pattern(paths: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern of these JSON Pointers and all below them; `*` in a key stands for any characters."""
    either = [re.escape(path).replace(r"\*", "[^/]*") for path in paths]
    return re.compile("(?:" + "|".join(either) + ")(?:/.*)?" if either else r"(?!)", re.DOTALL)


# Compiling a mapping takes as long as reading a hundred items.
_rules = lru_cache(maxsize=8)(_Rules)


def _at(record: Any, keys: Keys) -> Any:  # noqa: ANN401 - JSON
    for key in keys:
        record = record.get(key) if isinstance(record, dict) else None
    return record


class _Draft:
    """The values of an item while its record is read. `owners` are those in mapped columns: rank, place and value."""

    __slots__ = ("columns", "content", "counts", "fields", "owners", "types")

    def __init__(self) -> None:
        self.columns: dict[str, Scalar | datetime] = {}
        self.counts: dict[str, int] = {}
        self.fields: dict[str, Scalar] = {}
        self.types: dict[str, FieldType] = {}
        self.content: dict[str, Any] = {}
        self.owners: dict[str, tuple[int, _Place, Any]] = {}

    def add_members(self, members: Map[str, Any], place: _Place, depth: int) -> None:
        """Add the values of an object that are not empty, also those in objects within it that are not too deep."""
        for key, value in members.items():
            here = place[key]
            if type(value) is dict and depth < _DEEPEST_COLUMN:
                self.add_members(value, here, depth + 1)
            elif (value or value == 0) and not (here.columns and self._is_in_column(here, value)):
                self._add_field(here, value)

    def _is_in_column(self, place: _Place, value: Any) -> bool:  # noqa: ANN401 - JSON
        """Add a value to the mapped columns that have none or a worse one; return whether there are any."""
        is_in_one, owners = False, self.owners
        for name, rank, read, part in place.columns:
            owner = owners.get(name)
            if (owner is not None and owner[0] < rank) or (found := read(value)) is None:
                continue
            if owner is not None:
                self._leave(name)
            owners[name] = rank, place, value
            is_in_one = True
            if part is _COUNT:
                self.counts[name] = found  # type: ignore[assignment]
            else:
                self.columns[name] = found
                if part is _CONTENT:
                    self.content[name] = _by_value(found)
        return is_in_one

    def _leave(self, name: str) -> None:
        """Take the value out of a mapped column that has a better one: it is a field, unless another column has it."""
        _, place, value = self.owners.pop(name)
        self.columns.pop(name, None)
        self.counts.pop(name, None)
        self.content.pop(name, None)
        if all(owner is not place for _, owner, _ in self.owners.values()):
            self._add_field(place, value)

    def _add_field(self, place: _Place, value: Any) -> None:  # noqa: ANN401 - JSON
        path = place.path
        if place.is_count and (count := as_count(value)) is not None:
            self.counts[path] = count
            self.types[path] = _LONG if abs(count) > _EXACT else _INTEGER
            return
        kind = type(value)
        self.fields[path], self.types[path] = _FIELD.get(kind, _digits_field)(value)
        if not place.is_ignored and (stable := _STABLE.get(kind, _by_value)(value, place)) is not None:
            self.content[place.stable_path] = stable


def _by_value(value: Any, *_: _Place) -> Any:  # noqa: ANN401 - a scalar or a time
    kind = type(value)
    if kind is str:
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    return exact(value) if kind is float else value


def _stable_text(value: str, place: _Place) -> str | None:
    if not value or (value.startswith(_ADDRESS) and not place.is_content):
        return None
    return value if value.isascii() else unicodedata.normalize("NFC", value)


def _stable_list(value: list[Any], place: _Place) -> list[Any] | None:
    elements = place.elements
    return [_STABLE.get(type(each), _by_value)(each, elements) for each in value] or None


def _stable_object(value: dict[str, Any], place: _Place) -> dict[str, Any] | None:
    found = {}
    for key, each in value.items():
        here = place[key]
        if here.is_ignored or (here.is_count and as_count(each) is not None):
            continue
        if (stable := _STABLE.get(type(each), _by_value)(each, here)) is not None:
            found[here.key] = stable
    return found or None


# The content of a value in canonical form, by its type; None if it has none. Any other is a scalar.
_STABLE: Map[type, Callable[[Any, _Place], Any]] = {
    str: _stable_text,
    list: _stable_list,
    dict: _stable_object,
}


def _text_field(value: str) -> tuple[Scalar, FieldType]:
    return value, _TIME if value[4:5] == "-" and is_instant(value) else _TEXT


def _number_field(value: float) -> tuple[Scalar, FieldType]:
    return (int(value), _INTEGER) if value.is_integer() and abs(value) <= _EXACT else (value, _NUMBER)


def _integer_field(value: int) -> tuple[Scalar, FieldType]:
    if value not in BIGINT:
        return str(value), _TEXT
    return value, _INTEGER if -_EXACT <= value <= _EXACT else _LONG


def _list_field(value: list[Any] | dict[str, Any]) -> tuple[Scalar, FieldType]:
    return _canonical(value).decode(), _LIST


def _digits_field(value: msgspec.Raw) -> tuple[Scalar, FieldType]:
    return bytes(value).decode(), _TEXT


# The value of a field's column, and its type.
_FIELD: Map[type, Callable[[Any], tuple[Scalar, FieldType]]] = {
    str: _text_field,
    bool: lambda value: (value, _BOOLEAN),
    float: _number_field,
    int: _integer_field,
    list: _list_field,
    dict: _list_field,
}


def member_types(text: str) -> Iterator[tuple[str, FieldType]]:
    """Yield path and type of each member of the objects in a list, which is the JSON text of a field.

    The paths begin in an element. A text that is no list has none.
    """
    try:
        elements = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return
    for element in elements if isinstance(elements, list) else ():
        if isinstance(element, dict):
            yield from _member_types(element, "", 1)


def _member_types(members: Map[str, Any], above: str, depth: int) -> Iterator[tuple[str, FieldType]]:
    for key, value in members.items():
        path = above + to_pointer((key,))
        if isinstance(value, dict) and depth < _DEEPEST_COLUMN:
            yield from _member_types(value, path, depth + 1)
        elif value not in (None, "", [], {}):
            yield path, _FIELD.get(type(value), _digits_field)(value)[1]
