"""How a media item's JSON becomes columns: the mapping of the canonical ones, and the registry of all other fields.

The schema of media items is not published (API 2), so every canonical column has candidate paths (JSON Pointers), tried
in order. Every other value is a field, whose column has a name that is valid without quotes, and unique whatever its
case.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from importlib.resources import files

import msgspec

from models.views import CHILDREN, MEDIA, macros, own_columns, views

Keys = tuple[str, ...]

_PLAIN = re.compile(r"\$(?:\.[^.\[\]\"*]+)+")


def to_pointer(keys: Keys) -> str:
    """Return the JSON Pointer that leads to the value under these keys.

    NUL, which SQL cannot contain, becomes the replacement character.
    """
    return "".join("/" + key.replace("~", "~0").replace("/", "~1").replace("\0", "\ufffd") for key in keys)


def to_keys(path: str) -> Keys:
    """Return the keys of a path in either notation: `/owner/username` or `$.owner.username`.

    Raises ValueError for anything else.
    """
    if path.startswith("/"):
        return tuple(key.replace("~1", "/").replace("~0", "~") for key in path[1:].split("/"))
    if _PLAIN.fullmatch(path):
        return tuple(path[2:].split("."))
    raise ValueError(f"{path!r} is not a path; use $.owner.username or the JSON Pointer /owner/username")


class Reading(StrEnum):
    """How a JSON value is converted to a column's value. What cannot be converted becomes NULL; the payload has it."""

    TEXT = "text"
    COUNT = "count"
    NUMBER = "number"
    FLAG = "flag"
    TIMESTAMP = "timestamp"


READING_TYPES: Mapping[Reading, str] = {
    Reading.TEXT: "VARCHAR",
    Reading.COUNT: "BIGINT",
    Reading.NUMBER: "DOUBLE",
    Reading.FLAG: "BOOLEAN",
    Reading.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
}


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """A canonical column: its candidate JSON Pointers, in order, and how to read the value."""

    column: str
    reading: Reading
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MediaMapping:
    """How media items are read. `count_words` are the last keys of paths to counts, in snake_case.

    `ignore` are JSON Pointers to fields that are not content, and `content` those of fields whose addresses are; a key
    of theirs may contain `*`. Elements of lists have the path of their list.
    """

    media_id: tuple[str, ...]
    columns: tuple[ColumnMapping, ...]
    children: tuple[str, ...]
    child_columns: tuple[ColumnMapping, ...]
    count_words: tuple[str, ...]
    ignore: tuple[str, ...] = ()
    content: tuple[str, ...] = ()

    def __hash__(self) -> int:
        """Return a hash of the ids alone: that of all columns takes longer than reading an item."""
        return hash(self.media_id)

    def to_json(self) -> str:
        """Return the mapping as one line of JSON, the same for equal mappings."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> "MediaMapping":
        """Return the mapping that `to_json` wrote."""
        return msgspec.json.decode(text, type=cls)

    @property
    def count_key_pattern(self) -> str:
        """Return the pattern of a key that names a count, in snake_case or camelCase, without groups."""
        counts = (column.paths for column in self.columns if column.reading is Reading.COUNT)
        words = {*self.count_words, *(to_keys(path)[-1] for paths in counts for path in paths)}
        words |= {re.sub("_([^_]*)", lambda part: part[1].capitalize(), word) for word in words}
        return r"(?:[A-Za-z0-9_]*(?:_c|C)ounts?|" + "|".join(map(re.escape, sorted(words))) + ")"

    def child_table(self, path: str) -> str:
        """Return the name of the view of a list's elements: media_children, or one that is not in models/views."""
        if path in self.children:
            return CHILDREN
        name = table_name(MEDIA, to_keys(path))
        return f"{name}_2" if name in views() or name in macros() else name


BUILT_IN = msgspec.toml.decode(files(__package__).joinpath("built_in.toml").read_bytes(), type=MediaMapping)


class FieldType(StrEnum):
    """The type of a value of a field.

    LONG is an integer of 64 bits beyond 2^53, which a DOUBLE would round. TIME is a text that is a time with a zone.
    LIST is a list, or an object that is nested too deep for columns: JSON text. Every other text is TEXT, and so are
    the digits of an integer beyond 64 bits.
    """

    BOOLEAN = "boolean"
    INTEGER = "integer"
    LONG = "long"
    NUMBER = "number"
    TIME = "time"
    TEXT = "text"
    LIST = "list"


_COLUMN_TYPES = {
    "BOOLEAN": {FieldType.BOOLEAN},
    "BIGINT": {FieldType.INTEGER, FieldType.LONG},
    "DOUBLE": {FieldType.INTEGER, FieldType.NUMBER},
    "TIMESTAMP WITH TIME ZONE": {FieldType.TIME},
}


def column_type(types: Collection[FieldType]) -> str:
    """Return the DuckDB type of a column that holds values of all these types; one more type can only widen it."""
    return next((name for name, fitting in _COLUMN_TYPES.items() if fitting.issuperset(types)), "VARCHAR")


# PostgreSQL allows 63 characters; the rest is for a number that makes the name unique.
LONGEST = 59
_DIGEST = 8

# Reserved words of SQL (FROM duckdb_keywords()), which would require quotes, and words that DuckDB does not accept as a
# column name in every context.
_KEYWORDS = """
all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check collate
collation column concurrently constraint create cross default deferrable desc describe distinct do else end except false
fetch for foreign freeze from full glob group having ilike in initially inner intersect into is isnull join lambda
lateral leading left like limit natural not notnull null offset on only or order outer overlaps pivot pivot_longer
pivot_wider placing positional primary qualify references returning right rowid select semi show similar some summarize
symmetric table tablesample then to trailing true union unique unpack unpivot using variadic verbose when where window
with
"""
KEYWORDS = frozenset(_KEYWORDS.split())

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# A list of objects is often wrapped in an object, as in {"data": [...]}.
_WRAPPERS = frozenset({"data", "items", "edges", "nodes"})


def _snake(key: str) -> str:
    spaced = _WORD.sub("_", unicodedata.normalize("NFKC", key)).casefold()
    return re.sub(r"[\W_]+", "_", spaced).strip("_")


def _joined(keys: Keys) -> str:
    return "__".join(filter(None, map(_snake, keys))) or "field"


def _cut(name: str, keys: Keys) -> str:
    if len(name) <= LONGEST:
        return name
    digest = sha256("\0".join(keys).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST - _DIGEST - 1].rstrip('_')}_{digest}"


def safe_name(keys: Keys) -> str:
    """Return a name for the field at this path, such as owner__full_name for ("owner", "fullName").

    Letters of any script are kept. A long name is truncated and made unique by a digest of the path.
    """
    name = _joined(keys)
    return _cut(f"{'_' if name[0].isdigit() else ''}{name}{'_' if name in KEYWORDS else ''}", keys)


def _unique(name: str, taken: Collection[str]) -> str:
    """Return the name, or the first of name_2, name_3, ... that is not taken."""
    number, free = 2, name
    while free in taken:
        number, free = number + 1, f"{name}_{number}"
    return free


def table_name(table: str, keys: Keys) -> str:
    """Return a name for the child table of a table's list at this path, such as media_product_tags."""
    while len(keys) > 1 and keys[-1] in _WRAPPERS:
        keys = keys[:-1]
    return _cut(f"{table}_{_joined(keys)}", keys)


# The first fields get columns; the next ones are registered without one, and the rest are not registered. Records with
# data as keys ({"by_day": {"2026-01-01": 1, ...}}) must not make a table of ten thousand columns.
MOST_COLUMNS = 300
MOST_FIELDS = 600


@dataclass(frozen=True, slots=True)
class Field:
    """A field: the types of its values, whether one of them was a count, and its column, if it has one.

    Fields outside of items have no types, and no column.
    """

    resource: str
    path: str
    kinds: frozenset[FieldType]
    is_count: bool
    first_seen_at: datetime
    column_name: str | None = None
    ordinal: int = 0
    last_type_change_at: datetime | None = None

    @property
    def type(self) -> str:
        """Return the DuckDB type of the column."""
        return column_type(self.kinds)


Registry = Mapping[tuple[str, str], Field]


def register(known: Registry, seen: Iterable[Field], own: Collection[str]) -> Registry:
    """Return the registry with what was seen of fields, which must be in the order in which it was received.

    `own` are the names of the columns of core.media that are not columns of fields.
    """
    fields, numbers = dict(known), Counter(resource for resource, _ in known)
    taken = defaultdict(lambda: own_columns(CHILDREN), {MEDIA: {*own}})
    for field in known.values():
        taken[field.resource].add(field.column_name or "")
    for field in seen:
        key, ordinal = (field.resource, field.path), numbers[field.resource]
        if (before := fields.get(key)) is not None:
            wider = replace(before, kinds=before.kinds | field.kinds, is_count=before.is_count or field.is_count)
            changed_at = before.last_type_change_at if wider.kinds == before.kinds else field.first_seen_at
            fields[key] = replace(wider, last_type_change_at=changed_at)
        elif ordinal < MOST_FIELDS:
            numbers[field.resource], name = ordinal + 1, None
            # SQL texts, such as those of views, cannot have a path with a NUL.
            if field.kinds and ordinal < MOST_COLUMNS and "\0" not in field.path:
                name = _unique(safe_name(to_keys(field.path)), taken[field.resource])
                taken[field.resource].add(name)
            fields[key] = replace(field, column_name=name, ordinal=ordinal)
    return fields
