"""Where in a media item's JSON each canonical column may be found: data, not code.

The media item's schema is not published (API 2), so every column has candidate paths, tried in order:
Instagram Graph names first, then their camelCase and nested cousins.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reading(StrEnum):
    """How a JSON value becomes a column's value. What cannot be read so becomes NULL; the payload keeps it."""

    TEXT = "text"
    COUNT = "count"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """A canonical column of `media`: its candidate JSON paths, in order, and how to read what is there."""

    column: str
    reading: Reading
    paths: tuple[str, ...]


MEDIA_ID_PATHS = ("$.id", "$.media_id", "$.mediaId", "$.pk", "$.ig_id", "$.igId")

MEDIA_COLUMNS = (
    ColumnMapping(
        "media_type",
        Reading.TEXT,
        ("$.media_type", "$.mediaType", "$.type", "$.media.type", "$.kind"),
    ),
    ColumnMapping(
        "caption",
        Reading.TEXT,
        ("$.caption.text", "$.caption", "$.captionText", "$.caption_text", "$.text"),
    ),
    ColumnMapping(
        "permalink",
        Reading.TEXT,
        ("$.permalink", "$.permalinkUrl", "$.permalink_url", "$.link"),
    ),
    ColumnMapping(
        "media_url",
        Reading.TEXT,
        (
            "$.media_url",
            "$.mediaUrl",
            "$.media.url",
            "$.url",
            "$.image_url",
            "$.imageUrl",
            "$.video_url",
            "$.videoUrl",
        ),
    ),
    ColumnMapping(
        "published_at",
        Reading.TIMESTAMP,
        (
            "$.timestamp",
            "$.published_at",
            "$.publishedAt",
            "$.taken_at",
            "$.takenAt",
            "$.created_time",
            "$.createdTime",
            "$.created_at",
            "$.createdAt",
        ),
    ),
    ColumnMapping(
        "like_count",
        Reading.COUNT,
        (
            "$.like_count",
            "$.likeCount",
            "$.likes_count",
            "$.likesCount",
            "$.metrics.likes",
            "$.stats.likes",
            "$.statistics.likes",
            "$.counts.likes",
            "$.likes.count",
            "$.likes",
        ),
    ),
    ColumnMapping(
        "comments_count",
        Reading.COUNT,
        (
            "$.comments_count",
            "$.commentsCount",
            "$.comment_count",
            "$.commentCount",
            "$.metrics.comments",
            "$.stats.comments",
            "$.statistics.comments",
            "$.counts.comments",
            "$.comments.count",
            "$.comments",
        ),
    ),
)

# A signed URL gets new signature parameters each time it is served: the picture behind it is the same.
VOLATILE_URL_PARAMETERS = (
    "_nc_[a-z0-9_]+",
    "ccb",
    "edm",
    "efg",
    "ig_cache_key",
    "oe",
    "oh",
    "stp",
    "X-Amz-[A-Za-z]+",
    "Expires",
    "Signature",
    "Key-Pair-Id",
    "se",
    "sig",
    "token",
)

VOLATILE_URL_PATTERN = r"([?&])(?:" + "|".join(VOLATILE_URL_PARAMETERS) + r""")=[^&"\\\s]*"""
