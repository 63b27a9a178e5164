"""The mapping from a media item's JSON to the canonical columns, as data.

The schema of media items is not published (API 2), so every column has candidate paths (JSON Pointers), tried in order.
"""

import re
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from models.schema.fields import MEDIA
from models.schema.pointer import to_keys


class Reading(StrEnum):
    """How a JSON value is converted to a column's value. What cannot be converted becomes NULL; the payload has it."""

    TEXT = "text"
    COUNT = "count"
    NUMBER = "number"
    FLAG = "flag"
    TIMESTAMP = "timestamp"


READING_TYPES: Map[Reading, str] = {
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
class Mapping:
    """How the items of a table are read. `count_words` are the last keys of paths to counts, in snake_case.

    `volatile_parameters` are patterns of the parameters of signed URLs, and `ignore` JSON Pointers to fields that are
    not compared; a key of theirs may contain `*`.
    """

    media_id: tuple[str, ...]
    columns: tuple[ColumnMapping, ...]
    children: tuple[str, ...]
    child_columns: tuple[ColumnMapping, ...]
    count_words: tuple[str, ...]
    volatile_parameters: tuple[str, ...]
    ignore: tuple[str, ...] = ()
    table: str = MEDIA

    def of(self, table: str) -> "Mapping":
        """Return how the items of another table are read: of their columns only the time of publication is mapped."""
        if table == self.table:
            return self
        columns = tuple(column for column in self.columns if column.column == "published_at")
        return replace(self, table=table, columns=columns, children=(), child_columns=())

    def to_json(self) -> str:
        """Return the mapping as one line of JSON, the same for equal mappings."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> "Mapping":
        """Return the mapping that `to_json` wrote."""
        return msgspec.json.decode(text, type=cls)

    def reads_like(self, other: "Mapping") -> bool:
        """Return whether both mappings read the same values. They may differ in how values are compared."""
        return replace(self, volatile_parameters=other.volatile_parameters, ignore=other.ignore) == other

    @property
    def signed_url_pattern(self) -> str:
        """Return the pattern of a signed URL that is a whole text or a JSON string; group 1 ends before its query."""
        parameters = "|".join(self.volatile_parameters)
        before = r'((?:^|")(?:https?:)?\\?/\\?/[^\s"?#]*)'
        return rf'(?i){before}\?(?:[^\s"#]*(?:[&;]|\\u0026))?(?:{parameters})=[^\s"]*'

    @property
    def ignored_pattern(self) -> str | None:
        """Return the pattern of the paths of fields that are not compared, those below them included; None if none."""
        if not self.ignore:
            return None
        paths = (re.escape(path).replace(r"\*", '[^/"]*') for path in self.ignore)
        return "(?:" + "|".join(paths) + ')(?:/[^"]*)?'

    @property
    def count_key_pattern(self) -> str:
        """Return the pattern of a key that names a count, in snake_case or camelCase, without groups."""
        words = set(self.count_words)
        for column in self.columns:
            if column.reading is Reading.COUNT:
                words.update(to_keys(path)[-1] for path in column.paths)
        every = sorted(words | {_camel(word) for word in words})
        return r"(?:[A-Za-z0-9_]*(?:_c|C)ounts?|" + "|".join(re.escape(word) for word in every) + ")"


def _camel(word: str) -> str:
    first, *rest = word.split("_")
    return first + "".join(part.capitalize() for part in rest)
