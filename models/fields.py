"""The fields of items: their types, the names of their columns, and the registry of those that there have been. No IO.

Names are valid without quotes, and unique whatever their case.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from models.mapping import Keys, to_keys, to_words
from models.mapping import Mapping as MediaMapping
from models.views import CHILDREN, MEDIA, own_columns


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
    frozenset({FieldType.BOOLEAN}): "BOOLEAN",
    frozenset({FieldType.INTEGER}): "BIGINT",
    frozenset({FieldType.LONG}): "BIGINT",
    frozenset({FieldType.INTEGER, FieldType.LONG}): "BIGINT",
    frozenset({FieldType.NUMBER}): "DOUBLE",
    frozenset({FieldType.INTEGER, FieldType.NUMBER}): "DOUBLE",
    frozenset({FieldType.TIME}): "TIMESTAMP WITH TIME ZONE",
}


def column_type(types: Collection[FieldType]) -> str:
    """Return the DuckDB type of a column that holds values of all these types; one more type can only widen it."""
    return _COLUMN_TYPES.get(frozenset(types), "VARCHAR")


# PostgreSQL allows 63 characters; the rest is for a number that makes the name unique.
LONGEST = 59
_DIGEST = 8

# Reserved words of SQL (FROM duckdb_keywords()), which would require quotes, and words that DuckDB does not accept as a
# column name in every context.
KEYWORDS = frozenset(
    to_words(
        """
    all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check
    collate collation column concurrently constraint create cross default deferrable desc describe distinct do else end
    except false fetch for foreign freeze from full glob group having ilike in initially inner intersect into is isnull
    join lambda lateral leading left like limit natural not notnull null offset on only or order outer overlaps pivot
    pivot_longer pivot_wider placing positional primary qualify references returning right rowid select semi show
    similar some summarize symmetric table tablesample then to trailing true union unique unpack unpivot using variadic
    verbose when where window with
    """,
    )
)

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


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
    if name in KEYWORDS:
        name += "_"
    if name[0].isdigit():
        name = "_" + name
    return _cut(name, keys)


def unique(name: str, taken: Collection[str]) -> str:
    """Return the name, or the first of name_2, name_3, ... that is not taken. All names must be lower case."""
    number = 2
    free = name
    while free in taken:
        free = f"{name}_{number}"
        number += 1
    return free


# A list of objects is often wrapped in an object, as in {"data": [...]}.
_WRAPPERS = frozenset({"data", "items", "edges", "nodes"})


def table_name(table: str, keys: Keys) -> str:
    """Return a name for the child table of a table's list at this path, such as media_product_tags."""
    while len(keys) > 1 and keys[-1] in _WRAPPERS:
        keys = keys[:-1]
    return _cut(f"{table}_{_joined(keys)}", keys)


# In the order in which they are decided: a reel is a video too, and a carousel has images and videos. Words in lower
# case and without other characters than letters.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "reel": to_words("reel reels clip clips"),
    "carousel": to_words("carousel carouselalbum carouselcontainer album sidecar graphsidecar"),
    "video": to_words("video graphvideo igtv"),
    "image": to_words("image graphimage photo picture"),
}

# Fields that tell reels from other videos, or the type where no candidate of `media_type` does.
KIND_PATHS = to_words(
    "/media_product_type /mediaProductType /product_type /productType /media/product_type /media/productType"
    " /__typename"
)


def kind_of(columns: Sequence[str]) -> str:
    """Return the SQL expression for an item's kind, from expressions for the words that name it; NULL if none does."""
    said = [f"regexp_replace(lower({column}::VARCHAR), '[^a-z]', '', 'g')" for column in columns]
    # Not IN: DuckDB joins each row to a long list of values, also for a query that does not read the kind.
    cases = (
        f"WHEN {' OR '.join(f'list_contains({[*names]}, {word})' for word in said)} THEN '{which}'"
        for which, names in _WORDS.items()
    )
    return f"CASE {' '.join(cases)} END"


# The first fields get columns; the next ones are registered without one, and the rest are not registered. Records with
# data as keys ({"by_day": {"2026-01-01": 1, ...}}) must not make a table of ten thousand columns.
MOST_COLUMNS = 300
MOST_FIELDS = 600


def child_table(path: str, mapping: MediaMapping) -> str:
    """Return the name of the view of the elements of an item's list."""
    return CHILDREN if path in mapping.children else table_name(MEDIA, to_keys(path))


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
    fields = dict(known)
    numbers = Counter(field.resource for field in known.values())
    taken = {resource: {*own_columns(CHILDREN)} for resource in numbers} | {MEDIA: {*own}}
    for field in known.values():
        taken[field.resource].add(field.column_name or "")
    for field in seen:
        key = field.resource, field.path
        if key in fields:
            fields[key] = _widen(fields[key], field)
        elif (ordinal := numbers[field.resource]) < MOST_FIELDS:
            numbers[field.resource] += 1
            name = None
            # SQL texts, such as those of views, cannot have a path with a NUL.
            if field.kinds and ordinal < MOST_COLUMNS and "\0" not in field.path:
                of_table = taken.setdefault(field.resource, {*own_columns(CHILDREN)})
                name = unique(safe_name(to_keys(field.path)), of_table)
                of_table.add(name)
            fields[key] = replace(field, column_name=name, ordinal=ordinal)
    return fields


def _widen(field: Field, seen: Field) -> Field:
    if seen.kinds <= field.kinds and seen.is_count <= field.is_count:
        return field
    wider = replace(field, kinds=field.kinds | seen.kinds, is_count=field.is_count or seen.is_count)
    return wider if wider.type == field.type else replace(wider, last_type_change_at=seen.first_seen_at)
