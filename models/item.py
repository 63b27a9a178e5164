"""Media records as items: their keys, mapped columns, counts, other fields, and hashes of their content. No IO.

Everything that asks which id a record has, whether two records are the same, or what changed, asks here. The schema of
media items is not published (API 2), so a record may be any JSON.

- The **id** is at the first of the mapping's paths that has a text which is not empty, a number or a boolean. It is a
  text or an integer written as digits. A number with a fraction or an exponent is no id, because a program that rounds
  numbers makes one of several ids, and neither is a text that lost a character; nor is a boolean.
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, reduce
from operator import getitem
from typing import Any, NamedTuple, TypedDict

import msgspec
from xxhash import xxh3_64_intdigest

from models.checkpoint import Post
from models.mapping import ColumnMapping, FieldType, MediaMapping, Reading, to_keys, to_pointer
from models.values import (
    BIGINT,
    LOST,
    READ,
    UNREADABLE,
    RejectedItem,
    Scalar,
    as_count,
    decode_record,
    exact,
    is_instant,
    may_be_too_deep,
    time_of,
)

# The number of the rules above; it is part of every content hash, and stored in the warehouse.
CONTENT_RULE = 1

# Objects below this many keys are JSON text: their column names would be too long to use.
_DEEPEST_COLUMN = 8

# A double represents every integer up to this one exactly.
_EXACT = 2**53

# More members of an object than these are looked up for every item: their keys are data, such as dates.
_MOST_MEMBERS = 1000

_ADDRESS = ("http://", "https://")

# A mapped column of any other name is content, whatever its text begins with.
_ADDRESS_COLUMN = "media_url"

# Looking up a member of an enumeration takes as long as adding a value to an item.
_BOOLEAN, _INTEGER, _LONG, _NUMBER, _TIME, _TEXT, _LIST = FieldType

_canonical = msgspec.json.Encoder(order="sorted").encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])

Record = Mapping[str, Any]
"""The members of a decoded record."""

Kinds = dict[tuple[str, str, FieldType, bool], int]
"""The first record with each type of a field: by path, the path within the objects of a list (else it is empty), type,
and whether the value is a count."""


class Item(msgspec.Struct):
    """What one media record says.

    `values` are by the name of their mapped column, or by the path of their field, which begins with a slash, addresses
    included; the list of a field is JSON text with sorted keys. `counts` are the same; no count is in `values`. What is
    null or empty is absent. `taken` are the paths whose values are the id or in mapped columns.

    `content` is the canonical content, a JSON object with sorted keys, and `content_hash` the 64 bits of its XXH3 with
    CONTENT_RULE as the seed.
    """

    media_id: str
    values: dict[str, Scalar | datetime] = {}
    counts: dict[str, int] = {}
    taken: list[str] = []
    content: bytes = b"{}"
    content_hash: int = 0


@dataclass(slots=True)
class Items:
    """Media records that were read together, by the numbers that the caller gives them, and the rejected ones.

    `kinds` also has counts that are no mapped column. It is sorted by its records, and then by path, so that names of
    columns do not depend on other records.
    """

    read: dict[int, Item] = field(default_factory=dict)
    rejected: dict[int, RejectedItem] = field(default_factory=dict)
    kinds: Kinds = field(default_factory=dict)


def read_items(raws: Iterable[tuple[int, bytes]], mapping: MediaMapping) -> Items:
    """Return the items that media records are, with their numbers."""
    items = Items()
    for number, raw in raws:
        try:
            items.read[number] = read_item(decode_record(raw), mapping, items.kinds, number)
        except RejectedItem as error:
            items.rejected[number] = error
    # Of keys that differ in their case alone, the one in lower case gets the name without a number.
    first = sorted(items.kinds.items(), key=lambda one: (one[1], (one[0][1] or one[0][0]).swapcase(), *one[0]))
    items.kinds = dict(first)
    return items


def content_of(values: Record, mapping: MediaMapping) -> bytes:
    """Return the content of an item with these `values`, in which counts may be among the others."""
    rules, content = _rules(mapping), dict[str, Any]()
    for name, value in values.items():
        key, stable = name, None
        if name not in rules.columns:
            place = reduce(getitem, to_keys(name), rules.record)
            key, stable = place.stable_path, _content(value, place)
        else:
            read, (first, *_) = rules.columns[name]
            if first.is_content:
                stable = _by_value(read(value))
        if stable is not None:
            content[key] = stable
    return _canonical(content)


def read_posts(raws: Iterable[bytes], mapping: MediaMapping) -> Sequence[Post]:
    """Return media records as posts: their ids and times, as far as they can be read."""
    rules, posts = _rules(mapping), []
    for raw in raws:
        media_id = published_at = None
        try:
            decode = decode_record if may_be_too_deep(raw) else rules.decode_post
            found = _flatten(decode(raw), rules.record, {})
            published_at, _ = _first(found, rules.times, time_of)
            media_id, _ = _first(found, rules.ids, _as_id)
        except (RejectedItem, *UNREADABLE):
            pass
        posts.append(Post(media_id, published_at))
    return posts


def has_counts(column: ColumnMapping, mapping: MediaMapping) -> bool:
    """Return whether a mapped column has counts; it has none if the mapping ignores one of its paths."""
    _, candidates = _rules(mapping).columns[column.column]
    return all(one.is_count for one in candidates)


def changed_columns(before: bytes, after: bytes) -> tuple[str, ...]:
    """Return what differs between the `content` of two items: names of mapped columns and paths of fields, sorted."""
    one, other = _members.decode(before), _members.decode(after)
    return tuple(sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name)))


class _Place(dict[str, "_Place"]):
    """What the rules say of a path, found out once for all items, and the places of its members by key.

    The elements of a list have the path of their list.
    """

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, rules: "_Rules", path: str = "", key: str = "") -> None:
        super().__init__()
        self._rules, self.path = rules, path
        self.key, self.stable_path = _by_value(key), _by_value(path)
        self.is_deepest = path.count("/") >= _DEEPEST_COLUMN
        self.is_ignored = rules.ignored.fullmatch(path) is not None
        self.is_content = rules.content.fullmatch(path) is not None
        self.is_count = rules.count_key.fullmatch(key) is not None and not self.is_ignored

    def __missing__(self, key: str) -> "_Place":
        place = _Place(self._rules, self.path + to_pointer((key,)), key)
        if len(self) < _MOST_MEMBERS:
            self[key] = place
        return place


class _Candidate(NamedTuple):
    """A place where the value of a mapped column may be, and what it is there."""

    place: _Place
    is_count: bool
    is_content: bool


class _Rules:
    """A mapping, compiled."""

    def __init__(self, mapping: MediaMapping) -> None:
        self.count_key = re.compile(mapping.count_key_pattern)
        self.ignored, self.content = _pattern(mapping.ignore), _pattern(mapping.content)
        self.record = _Place(self)
        self.ids = self._places(mapping.media_id)
        self.columns = {one.column: self._column(one) for one in mapping.columns}
        self.times = [one.place for one in self.columns["published_at"][1]]
        # Only these members of a post are decoded, which takes a fifth of the time.
        keys = {to_keys(place.path)[0]: Any for place in (*self.ids, *self.times)}
        self.decode_post = msgspec.json.Decoder(TypedDict("_Post", keys, total=False)).decode  # type: ignore[operator]

    def _places(self, paths: Iterable[str]) -> Sequence[_Place]:
        return [reduce(getitem, to_keys(path), self.record) for path in paths]

    def _column(self, one: ColumnMapping) -> tuple[Callable[[Any], Any], Sequence[_Candidate]]:
        is_count, is_address = one.reading is Reading.COUNT, one.column == _ADDRESS_COLUMN
        return READ[one.reading], [
            _Candidate(
                place,
                is_count=is_count and not place.is_ignored,
                is_content=not (is_count or place.is_ignored or (is_address and not place.is_content)),
            )
            for place in self._places(one.paths)
        ]


def _pattern(paths: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern of these JSON Pointers and all below them; `*` in a key stands for any characters."""
    either = "|".join(re.escape(path).replace(r"\*", "[^/]*") for path in paths)
    return re.compile(f"(?:{either or '(?!)'})(?:/.*)?", re.DOTALL)


# Compiling a mapping takes as long as reading a hundred items.
_rules = lru_cache(maxsize=8)(_Rules)


_Found = dict[_Place, Any]
"""The values of a record by their places."""


def _flatten(record: Record, place: _Place, found: _Found) -> _Found:
    """Add the values of an object that are not empty, also those in objects within it, to `found`, and return it."""
    for key, value in record.items():
        if value or value == 0:
            inner = place[key]
            if type(value) is dict and not inner.is_deepest:
                _flatten(value, inner, found)
            else:
                found[inner] = value
    return found


def _first(found: _Found, places: Sequence[_Place], read: Callable[[Any], Any]) -> tuple[Any, _Place | None]:
    """Return the first value that can be read, and its place; else None."""
    for place in places:
        if (value := found.get(place)) is not None and (value := read(value)) is not None:
            return value, place
    return None, None


def _as_id(value: Any) -> str | None:  # noqa: ANN401 - JSON
    """Return an id; None for a list or an object. Raises RejectedItem."""
    kind = type(value)
    if kind is int or (kind is str and LOST not in value):
        return str(value)
    if kind in (str, float, bool):
        raise RejectedItem("inexact_id")
    return None


def read_item(record: Record, mapping: MediaMapping, kinds: Kinds, number: int) -> Item:
    """Return the item that a decoded record is, and add its types to `kinds`. Raises RejectedItem."""
    rules = _rules(mapping)
    found = _flatten(record, rules.record, {})
    media_id, place = _first(found, rules.ids, _as_id)
    if place is None:
        raise RejectedItem("no_id")
    content: dict[str, Any] = {}
    item, taken = Item(media_id), [place]
    for name, (read, candidates) in rules.columns.items():
        for place, is_count, is_content in candidates:
            if (value := found.get(place)) is not None and (value := read(value)) is not None:
                taken.append(place)
                (item.counts if is_count else item.values)[name] = value
                if is_content:
                    content[name] = _by_value(value)
                break
    for place in taken:
        found.pop(place, None)  # Two columns may have one place.
    item.taken = [place.path for place in taken]
    _add_fields(found, item, content, kinds, number)
    item.content = _canonical(content)
    item.content_hash = xxh3_64_intdigest(item.content, CONTENT_RULE)
    return item


def _add_fields(found: _Found, item: Item, content: dict[str, Any], kinds: Kinds, number: int) -> None:
    """Add the values that no mapped column has to an item, to its content and to `kinds`."""
    for place, value in found.items():
        path = place.path
        if place.is_count and (count := as_count(value)) is not None:
            item.counts[path] = count
            kinds.setdefault((path, "", _typed(count)[1], True), number)
            continue
        item.values[path], kind = _typed(value)
        kinds.setdefault((path, "", kind, False), number)
        if (stable := _content(value, place)) is not None:
            content[place.stable_path] = stable
        for element in value if type(value) is list else ():
            if type(element) is dict:
                for member, each in _flatten(element, place, {}).items():
                    kinds.setdefault((path, member.path[len(path) :], _typed(each)[1], False), number)


def _by_value(value: Any) -> Any:  # noqa: ANN401 - a scalar or a time
    kind = type(value)
    if kind is str:
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    return exact(value) if kind is float else value


def _content(value: Any, place: _Place, *, is_element: bool = False) -> Any:  # noqa: ANN401 - JSON
    """Return the content of a value in canonical form; None if it has none. A number in a list is no count."""
    if place.is_ignored or (place.is_count and not is_element and as_count(value) is not None):
        return None
    kind = type(value)
    if kind is str:
        return None if not value or (value.startswith(_ADDRESS) and not place.is_content) else _by_value(value)
    if kind is list:
        return [_content(each, place, is_element=True) for each in value] or None
    if kind is not dict:
        return _by_value(value)
    found = {}
    for key, each in value.items():
        here = place[key]
        if (stable := _content(each, here)) is not None:
            found[here.key] = stable
    return found or None


def _typed(value: Any) -> tuple[Scalar, FieldType]:  # noqa: ANN401 - JSON
    """Return the value of a field's column, and its type."""
    kind = type(value)
    if kind is str:
        return value, _TIME if value[4:5] == "-" and is_instant(value) else _TEXT
    if kind is bool:
        return value, _BOOLEAN
    if kind is float:
        if not value.is_integer() or abs(value) > _EXACT:
            return value, _NUMBER
        return int(value), _INTEGER
    if kind is not int:
        return _canonical(value).decode(), _LIST
    if value not in BIGINT:
        return str(value), _TEXT
    return value, _INTEGER if abs(value) <= _EXACT else _LONG
