"""Media records as items: their keys, mapped columns, counts, other fields, and hashes of their content. No IO.

Many records are read together, a column at a time, which is faster than one record after the other.

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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from models.checkpoint import Post
from models.decoding import LOST, RejectedItem, decode_record
from models.fields import FieldType
from models.mapping import ADDRESSES, ColumnMapping, Keys, Mapping, Reading, to_keys, to_pointer
from models.values import BIGINT, READ, Scalar, as_count, as_text, exact, is_instant, time_of

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


@dataclass(slots=True)
class Items:
    """Media records that were read together; the caller gives each a number.

    `values` are by the name of their mapped column, or by the path of their field, which begins with a slash, and by
    number, addresses included; the list of a field is JSON text with sorted keys. `counts` are the same; no count of a
    record is in `values`. What is null or empty is absent.

    `kinds` has the first record with each type of a field, by path, the path within the objects of a list (else it is
    empty), type, and whether the value is a count; it also has counts that are no mapped column. It is sorted by these
    records, and then by path, so that names of columns do not depend on other records.

    `taken` are the numbers of the records whose id or mapped columns have the value at a path, by path.

    `contents` are the canonical contents, JSON objects with sorted keys, and `content_hashes` the 64 bits of their XXH3
    with CONTENT_RULE as the seed. `rejected` records are in nothing else.
    """

    media_ids: dict[int, str] = field(default_factory=dict)
    values: dict[str, dict[int, Scalar | datetime]] = field(default_factory=dict)
    counts: dict[str, dict[int, int]] = field(default_factory=dict)
    kinds: dict[tuple[str, str, FieldType, bool], int] = field(default_factory=dict)
    taken: dict[str, set[int]] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    content_hashes: dict[int, int] = field(default_factory=dict)
    rejected: dict[int, RejectedItem] = field(default_factory=dict)


def read_items(raws: Iterable[tuple[int, bytes]], mapping: Mapping) -> Items:
    """Return the items that media records are, with their numbers."""
    records, rejected = {}, {}
    for number, raw in raws:
        try:
            records[number] = decode_record(raw)
        except RejectedItem as error:
            rejected[number] = error
    items = read_decoded(records, mapping)
    items.rejected.update(rejected)
    return items


def read_decoded(records: Map[int, Map[str, Any]], mapping: Mapping) -> Items:
    """Return the items that decoded records are, by number."""
    rules, items = _rules(mapping), Items()
    for number, record in records.items():
        try:
            items.media_ids[number], path = rules.id_of(record)
            items.taken.setdefault(path, set()).add(number)
        except RejectedItem as error:
            items.rejected[number] = error
    found: dict[str, tuple[_Place, _Values]] = {}
    _gather([(number, records[number]) for number in items.media_ids], rules.record, 1, found)
    content: dict[int, dict[str, Any]] = {number: {} for number in items.media_ids}
    _fill_columns(items, mapping, found, content)
    for path in sorted(found):
        place, values = found[path]
        if gone := items.taken.get(path):
            values = {n: value for n, value in values.items() if n not in gone}
        _add_field(items, place, values, content)
    for number, members in content.items():
        items.contents[number] = text = _canonical(members)
        items.content_hashes[number] = xxh3_64_intdigest(text, CONTENT_RULE)
    # Of keys that differ in their case alone, the one in lower case gets the name without a number.
    first = sorted(items.kinds.items(), key=lambda one: (one[1], (one[0][1] or one[0][0]).swapcase(), *one[0]))
    items.kinds = dict(first)
    return items


def read_posts(raws: Iterable[bytes], mapping: Mapping) -> Sequence[Post]:
    """Return media records as posts: their ids and times, as far as they can be read."""
    rules, posts = _rules(mapping), []
    for raw in raws:
        media_id = published_at = None
        try:
            record = decode_record(raw)
            published_at = rules.time_of(record)
            media_id, _ = rules.id_of(record)
        except RejectedItem:
            pass
        posts.append(Post(media_id, published_at))
    return posts


def is_ignored(column: ColumnMapping, mapping: Mapping) -> bool:
    """Return whether no value of a mapped column is compared, because the mapping ignores all of its paths."""
    return all(_rules(mapping).ignored.fullmatch(path) for path in column.paths)


def changed_columns(before: bytes, after: bytes) -> tuple[str, ...]:
    """Return what differs between the `content` of two items: names of mapped columns and paths of fields, sorted."""
    one, other = _members.decode(before), _members.decode(after)
    return tuple(sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name)))


_Values = dict[int, Any]
"""Values of JSON by the numbers of their records."""


class _Place(dict[str, "_Place"]):
    """What the rules say of a path, found out once for all items, and the places of its members by key.

    The elements of a list have the path of their list.
    """

    __slots__ = ("_rules", "is_content", "is_count", "is_ignored", "key", "path", "stable_path")

    def __init__(self, rules: "_Rules", path: str = "", key: str = "") -> None:
        super().__init__()
        self._rules, self.path = rules, path
        self.key, self.stable_path = _by_value(key), _by_value(path)
        self.is_ignored = rules.ignored.fullmatch(path) is not None
        self.is_content = rules.content.fullmatch(path) is not None
        self.is_count = rules.count_key.fullmatch(key) is not None and not self.is_ignored

    def __missing__(self, key: str) -> "_Place":
        place = _Place(self._rules, self.path + to_pointer((key,)), key)
        if len(self) < _MOST_MEMBERS:
            self[key] = place
        return place


class _Rules:
    """A mapping, compiled."""

    def __init__(self, mapping: Mapping) -> None:
        self._ids = [(to_keys(path), path) for path in mapping.media_id]
        times = [column.paths for column in mapping.columns if column.column == "published_at"]
        self._times = [to_keys(path) for paths in times for path in paths]
        self.count_key = re.compile(mapping.count_key_pattern)
        self.ignored, self.content = _pattern(mapping.ignore), _pattern(mapping.content)
        self.record = _Place(self)

    def id_of(self, record: object) -> tuple[str, str]:
        """Return the id of a record, and its path. Raises RejectedItem."""
        for keys, path in self._ids:
            value = _at(record, keys)
            kind = type(value)
            if kind is str and value and LOST not in value:
                return value, path
            if kind is int or kind is msgspec.Raw:
                return str(as_text(value)), path
            if kind is float or kind is bool or (kind is str and value):
                raise RejectedItem("inexact_id")
        raise RejectedItem("no_id")

    def time_of(self, record: object) -> datetime | None:
        """Return when a record says that it was published."""
        for keys in self._times:
            if (found := time_of(_at(record, keys))) is not None:
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


def _gather(
    records: Iterable[tuple[int, Map[str, Any]]], place: _Place, depth: int, found: dict[str, tuple[_Place, _Values]]
) -> None:
    """Add the values of objects that are not empty to `found`, also those in objects within them, by path."""
    members: dict[str, _Values] = {}
    for number, record in records:
        for key, value in record.items():
            if value or value == 0:
                if (values := members.get(key)) is None:
                    values = members[key] = {}
                values[number] = value
    for key, values in members.items():
        here = place[key]
        if depth < _DEEPEST_COLUMN and dict in {*map(type, values.values())}:
            _gather([(n, value) for n, value in values.items() if type(value) is dict], here, depth + 1, found)
            values = {n: value for n, value in values.items() if type(value) is not dict}  # noqa: PLW2901
        if values:
            # Two keys that differ in a NUL have one path.
            found[here.path] = here, found[here.path][1] | values if here.path in found else values


def _fill_columns(
    items: Items, mapping: Mapping, found: Map[str, tuple[_Place, _Values]], content: Map[int, dict[str, Any]]
) -> None:
    """Fill the mapped columns, and `taken`."""
    for column in mapping.columns:
        name, read, filled = column.column, READ[column.reading], set[int]()
        for path in column.paths:
            if path not in found:
                continue
            place, values = found[path]
            if not filled and _are_read(values.values(), column.reading):
                own = values
            else:
                own = {n: one for n, value in values.items() if n not in filled and (one := read(value)) is not None}
            if not own:
                continue
            filled.update(own)
            items.taken.setdefault(path, set()).update(own)
            is_count = column.reading is Reading.COUNT and not place.is_ignored
            (items.counts if is_count else items.values).setdefault(name, {}).update(own)
            if not (is_count or place.is_ignored or (name in ADDRESSES and not place.is_content)):
                for n, one in own.items():
                    content[n][name] = one if type(one) is str and one.isascii() else _by_value(one)


def _are_read(values: Collection[Any], reading: Reading) -> bool:
    """Return whether values need not be read, because they are what a column holds: of most columns, all are."""
    kinds = {*map(type, values)}
    if reading is Reading.COUNT and kinds == {int}:
        return min(values) in BIGINT and max(values) in BIGINT
    return reading is Reading.TEXT and kinds == {str}


def _add_field(items: Items, place: _Place, values: _Values, content: Map[int, dict[str, Any]]) -> None:
    """Add the values at a path that no mapped column has."""
    path, kinds = place.path, items.kinds
    if place.is_count:
        counts = {n: count for n, value in values.items() if (count := as_count(value)) is not None}
        if counts:
            items.counts[path] = counts
            for n, count in counts.items():
                kinds.setdefault((path, "", _LONG if abs(count) > _EXACT else _INTEGER, True), n)
            values = {n: value for n, value in values.items() if n not in counts}
    if not values:
        return
    fields = items.values[path] = {}
    name, is_ignored, seen = place.stable_path, place.is_ignored, set[FieldType]()
    for n, value in values.items():
        kind = type(value)
        fields[n], field_type = _FIELD[kind](value)
        if field_type not in seen:
            seen.add(field_type)
            kinds[path, "", field_type, False] = n
        if not is_ignored and (stable := _stable(value, place)) is not None:
            content[n][name] = stable
        if kind is list:
            for member in (one for element in value if type(element) is dict for one in _member_types(element, "", 1)):
                kinds.setdefault((path, *member, False), n)


def _by_value(value: Any) -> Any:  # noqa: ANN401 - a scalar or a time
    kind = type(value)
    if kind is str:
        return value if value.isascii() else unicodedata.normalize("NFC", value)
    return exact(value) if kind is float else value


def _stable(value: Any, place: _Place) -> Any:  # noqa: ANN401 - JSON
    """Return the content of a value in canonical form; None if it has none."""
    kind = type(value)
    if kind is str and (not value or (value.startswith(_ADDRESS) and not place.is_content)):
        return None
    if kind is list:
        return [_stable(each, place) for each in value] or None
    if kind is not dict:
        return _by_value(value)
    found = {}
    for key, each in value.items():
        here = place[key]
        if here.is_ignored or (here.is_count and as_count(each) is not None):
            continue
        if (stable := _stable(each, here)) is not None:
            found[here.key] = stable
    return found or None


def _number_field(value: float) -> tuple[Scalar, FieldType]:
    return (int(value), _INTEGER) if value.is_integer() and abs(value) <= _EXACT else (value, _NUMBER)


def _integer_field(value: int) -> tuple[Scalar, FieldType]:
    if value not in BIGINT:
        return str(value), _TEXT
    return value, _INTEGER if -_EXACT <= value <= _EXACT else _LONG


# The value of a field's column, and its type, by the type of its JSON.
_FIELD: Map[type, Callable[[Any], tuple[Scalar, FieldType]]] = {
    str: lambda value: (value, _TIME if value[4:5] == "-" and is_instant(value) else _TEXT),
    bool: lambda value: (value, _BOOLEAN),
    float: _number_field,
    int: _integer_field,
    list: lambda value: (_canonical(value).decode(), _LIST),
    dict: lambda value: (_canonical(value).decode(), _LIST),
    msgspec.Raw: lambda value: (bytes(value).decode(), _TEXT),
}


def _member_types(members: Map[str, Any], above: str, depth: int) -> Iterator[tuple[str, FieldType]]:
    for key, value in members.items():
        path = above + to_pointer((key,))
        if isinstance(value, dict) and depth < _DEEPEST_COLUMN:
            yield from _member_types(value, path, depth + 1)
        elif value not in (None, "", [], {}):
            yield path, _FIELD[type(value)](value)[1]
