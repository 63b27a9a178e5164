"""The mapping from a media item's JSON to the canonical columns, as data.

The schema of media items is not published (API 2), so every column has candidate paths (JSON Pointers), tried in order.
"""

import re
from collections.abc import Mapping as Map
from dataclasses import dataclass
from enum import StrEnum

import msgspec

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


# The mapped columns that hold addresses. A mapped column of any other name is content, whatever its text begins with.
ADDRESSES = frozenset({"media_url"})

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
    def from_json(cls, text: str) -> "Mapping":
        """Return the mapping that `to_json` wrote."""
        return msgspec.json.decode(text, type=cls)

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


def to_words(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


def _column(text: str) -> ColumnMapping:
    """Return the column with this name, reading and paths."""
    name, reading, *paths = text.split()
    return ColumnMapping(name, Reading(reading), tuple(paths))


_MEDIA_ID = to_words("/id /media_id /mediaId /pk /ig_id /igId")

_COLUMNS = (
    _column("media_type text /media_type /mediaType /type /media/type /kind"),
    _column("caption text /caption/text /caption /captionText /caption_text /text"),
    _column("permalink text /permalink /permalinkUrl /permalink_url /link"),
    _column("media_url text /media_url /mediaUrl /media/url /url /image_url /imageUrl /video_url /videoUrl"),
    _column(
        "published_at timestamp /timestamp /published_at /publishedAt /taken_at /takenAt /created_time /createdTime"
        " /created_at /createdAt"
    ),
    _column(
        "like_count count /like_count /likeCount /likes_count /likesCount /metrics/likes /stats/likes"
        " /statistics/likes /counts/likes /likes/count /likes"
    ),
    _column(
        "comments_count count /comments_count /commentsCount /comment_count /commentCount /metrics/comments"
        " /stats/comments /statistics/comments /counts/comments /comments/count /comments"
    ),
)

_CHILDREN = to_words(
    """
    /children/data /children/items /children /carousel_media /carouselMedia /carousel/items /carousel/children
    /carousel /child_media /childMedia
    """
)

_MEDIA_TYPE, _MEDIA_URL = (
    next(column for column in _COLUMNS if column.column == name) for name in ("media_type", "media_url")
)

_CHILD_COLUMNS = (ColumnMapping("child_id", Reading.TEXT, _MEDIA_ID), _MEDIA_TYPE, _MEDIA_URL)

# Keys that end in _count or Count are counts without being listed here.
_COUNT_WORDS = to_words(
    """
    count likes comments shares saves saved bookmarks views plays reach impressions reposts replies reactions
    interactions total_interactions engagement exits taps_forward taps_back swipes_forward follows profile_visits
    profile_activity clicks
    """
)

BUILT_IN = Mapping(_MEDIA_ID, _COLUMNS, _CHILDREN, _CHILD_COLUMNS, _COUNT_WORDS)
