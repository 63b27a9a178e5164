"""One media record as an Item: its key, mapped columns, counts, other fields, and a hash of its content. No IO.

Everything that asks which id a record has, whether two records are the same, or what changed, asks here (design:
docs/decisions/history.md). The schema of media items is not published (API 2), so a record may be any JSON.

- The **id** is the first value at the mapping's paths that is no object, list, null or empty text. It is a text or an
  integer written as digits. A number with a fraction or an exponent is no id, because a program that rewrites numbers
  makes one of several ids; neither is a boolean.
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

import json
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from models.fields import FieldType
from models.mapping import ADDRESSES, Mapping, Reading, pattern_of
from models.pointer import Keys, to_keys, to_pointer
from models.times import is_instant, time_of

# The number of the rules above; it is part of every content hash, and stored in the warehouse.
CONTENT_RULE = 1

# Objects below this many keys are JSON text: their column names would be too long to use.
DEEPEST_COLUMN = 8

# Items that are nested deeper are rejected.
DEEPEST = 200

# A double represents every integer up to this one exactly.
EXACT = 2**53

Scalar = str | int | float | bool


class RejectedItem(ValueError):  # noqa: N818 - named after the condition
    """A record that cannot become an item; `code` is a key of REASONS, and the message its text."""

    def __init__(self, code: str) -> None:
        """Create it with the text of its code."""
        super().__init__(REASONS[code])
        self.code = code


REASONS = {
    "no_id": "The item has no id that gramhouse knows.",
    "inexact_id": "The id of the item is a number with a fraction or an exponent, or a boolean.",
    "not_an_object": "The item is not a JSON object.",
    "not_json": "The item is not JSON.",
    "duplicate_key": "The item contains a duplicate key.",
    "too_deep": f"The item is nested deeper than {DEEPEST} levels.",
    "lone_surrogate": "The item contains half of a character (an unpaired surrogate).",
    "number_out_of_range": "The item contains a number that is out of the range of a double.",
}


class ItemKey(NamedTuple):
    """What tells two items of one scan apart, and orders them. Two items with one id and other values are a finding."""

    media_id: str
    published_at: datetime | None
    permalink: str | None


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
    raise NotImplementedError


def read_key(raw: bytes | msgspec.Raw, mapping: Mapping) -> ItemKey:
    """Return the key of a media record, without reading the rest of it. Raises RejectedItem."""
    raise NotImplementedError


def changed_columns(before: bytes, after: bytes) -> tuple[str, ...]:
    """Return what differs between the `content` of two items: names of mapped columns and paths of fields, sorted."""
    raise NotImplementedError
