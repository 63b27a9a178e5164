"""The mapping from a media item's JSON to the canonical columns, as data.

The schema of media items is not published (API 2), so every column has candidate paths (JSON Pointers), tried in order.
"""

import json
import re
from collections.abc import Mapping as Map
from dataclasses import asdict, dataclass
from enum import StrEnum

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
    """How media items are read. `count_words` are the last keys of paths to counts, in snake_case."""

    media_id: tuple[str, ...]
    columns: tuple[ColumnMapping, ...]
    children: tuple[str, ...]
    child_columns: tuple[ColumnMapping, ...]
    count_words: tuple[str, ...]
    volatile_parameters: tuple[str, ...]

    def to_json(self) -> str:
        """Return the mapping as one line of JSON, the same for equal mappings."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Mapping":
        """Return the mapping that `to_json` wrote."""
        raw = json.loads(text)

        def columns(name: str) -> tuple[ColumnMapping, ...]:
            return tuple(ColumnMapping(c["column"], Reading(c["reading"]), tuple(c["paths"])) for c in raw[name])

        return cls(
            media_id=tuple(raw["media_id"]),
            columns=columns("columns"),
            children=tuple(raw["children"]),
            child_columns=columns("child_columns"),
            count_words=tuple(raw["count_words"]),
            volatile_parameters=tuple(raw["volatile_parameters"]),
        )

    @property
    def volatile_patterns(self) -> dict[str, str]:
        """Return patterns of URL parameters that do not identify the resource, by the preceding character."""
        parameter = "(?:" + "|".join(self.volatile_parameters) + r""")=[^&"\\\s]*"""
        return {"?": r"\?" + parameter, "&": "&" + parameter}

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
