"""The mapping from a media item's JSON to the canonical columns, as data.

The schema of media items is not published (API 2), so every column has candidate paths (JSON Pointers), tried in order.
"""

import re
from collections.abc import Mapping as Map
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from models.pointer import to_keys
from models.schema.fields import MEDIA


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
    """How the items of a table are read. `count_words` are the last keys of paths to counts, in snake_case.

    `volatile_parameters` are patterns of the parameters of signed URLs. `ignore` are JSON Pointers to fields that are
    not content, and `content` those of fields whose addresses are; a key of theirs may contain `*`. Elements of lists
    have the path of their list.
    """

    media_id: tuple[str, ...]
    columns: tuple[ColumnMapping, ...]
    children: tuple[str, ...]
    child_columns: tuple[ColumnMapping, ...]
    count_words: tuple[str, ...]
    volatile_parameters: tuple[str, ...]
    ignore: tuple[str, ...] = ()
    table: str = MEDIA
    content: tuple[str, ...] = ()

    def __hash__(self) -> int:
        """Return a hash of the ids alone: that of all columns takes longer than reading an item."""
        return hash(self.media_id)

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
        as_compared = replace(self, volatile_parameters=other.volatile_parameters, ignore=other.ignore)
        return replace(as_compared, content=other.content) == other

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


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _column(text: str) -> ColumnMapping:
    """Return the column with this name, reading and paths."""
    name, reading, *paths = text.split()
    return ColumnMapping(name, Reading(reading), tuple(paths))


_MEDIA_ID = _words("/id /media_id /mediaId /pk /ig_id /igId")

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

# A signed URL has new signature parameters in every response, although the picture is the same. One of these shows
# that a URL is signed; upper and lower case are the same.
_VOLATILE_PARAMETERS = _words(
    """
    _nc_[a-z0-9_]+ ccb edm efg ig_cache_key oe oh stp x-(?:amz|goog)-[a-z]+ x-(?:expires|signature) AWSAccessKeyId
    GoogleAccessId Expires Signature Key-Pair-Id se sig token access_token auth_key hdn[a-z]+ hmac sign
    """
)

_CHILDREN = _words(
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
_COUNT_WORDS = _words(
    """
    count likes comments shares saves saved bookmarks views plays reach impressions reposts replies reactions
    interactions total_interactions engagement exits taps_forward taps_back swipes_forward follows profile_visits
    profile_activity clicks
    """
)

BUILT_IN = Mapping(_MEDIA_ID, _COLUMNS, _CHILDREN, _CHILD_COLUMNS, _COUNT_WORDS, _VOLATILE_PARAMETERS)
