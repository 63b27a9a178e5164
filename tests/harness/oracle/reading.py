"""What an item's JSON says, by docs/mapping.md and docs/decisions.md: id, columns, counts, fields, content."""

import json
import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

Item = dict[str, Any]

# The built-in mapping: the paths of each column, the first with a value counts.
BUILT_IN: dict[str, tuple[str, ...]] = {
    name: tuple(paths.split())
    for name, paths in {
        "media_id": "/id /media_id /mediaId /pk /ig_id /igId",
        "media_type": "/media_type /mediaType /type /media/type /kind",
        "caption": "/caption/text /caption /captionText /caption_text /text",
        "permalink": "/permalink /permalinkUrl /permalink_url /link",
        "media_url": "/media_url /mediaUrl /media/url /url /image_url /imageUrl /video_url /videoUrl",
        "published_at": "/timestamp /published_at /publishedAt /taken_at /takenAt /created_time /createdTime"
        " /created_at /createdAt",
        "like_count": "/like_count /likeCount /likes_count /likesCount /metrics/likes /stats/likes /statistics/likes"
        " /counts/likes /likes/count /likes",
        "comments_count": "/comments_count /commentsCount /comment_count /commentCount /metrics/comments"
        " /stats/comments /statistics/comments /counts/comments /comments/count /comments",
        "children": "/children/data /children/items /children /carousel_media /carouselMedia /carousel/items"
        " /carousel/children /carousel /child_media /childMedia",
    }.items()
}
TEXTS = ("media_type", "caption", "permalink")
COUNTS = ("like_count", "comments_count")
_COLUMNS = (*TEXTS, "media_url", "published_at", *COUNTS)
_WORDS = """
count likes comments shares saves saved bookmarks views plays reach impressions reposts replies reactions interactions
total_interactions engagement exits taps_forward taps_back swipes_forward follows profile_visits profile_activity clicks
"""
_COUNT_WORDS = {
    *_WORDS.split(),
    *(path.rpartition("/")[2] for name in COUNTS for path in BUILT_IN[name]),
}
# Objects at this depth are stored as JSON text.
DEEPEST = 8
# An item that is nested deeper cannot be read.
_MOST_LEVELS = 200
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)")
_INT64 = range(-(2**63), 2**63)


def content(item: Item) -> str:
    """THE RULE OF CONTENT: return columns and fields without counts and addresses; another text is another version.

    Null and empty values are left out, numbers are equal by value, and texts in their composed form.
    """
    columns = {name: _stable(str(canonical(item, name) or "")) for name in (*TEXTS, "published_at")}
    own = sources(item)
    fields = {
        unicodedata.normalize("NFC", path): stable
        for path, key, value in _leaves(item)
        if path not in own and not _counts(key, value) and (stable := _stable(value)) is not None
    }
    return json.dumps([columns, fields], sort_keys=True)


def counts(item: Item) -> dict[str, int]:
    """Return the counts of an item: canonical columns by name, and others by the path of their field."""
    own = sources(item)
    found = {name: canonical(item, name) for name in COUNTS}
    found |= {path: count_of(value) for path, key, value in _leaves(item) if path not in own and _counts(key, value)}
    return {name: count for name, count in found.items() if count is not None}


def is_same(one: Item, other: Item) -> bool:
    """Return whether nothing has changed that a row, a version or a count shows, but for addresses."""
    return content(one) == content(other) and counts(one) == counts(other)


def _leaves(item: Item, above: str = "", depth: int = 1) -> Iterator[tuple[str, str, Any]]:
    """Yield path, key and value of the fields of an item."""
    for key, value in item.items():
        path = f"{above}/{key.replace('~', '~0').replace('/', '~1')}"
        if isinstance(value, dict) and depth < DEEPEST:
            yield from _leaves(value, path, depth + 1)
        else:
            yield path, key, value


def _stable(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """THE RULE OF ADDRESSES: a text that begins with http:// or https:// is no content. An element keeps its place."""
    if isinstance(value, dict):
        found = {
            unicodedata.normalize("NFC", key): stable
            for key, each in value.items()
            if not _counts(key, each) and (stable := _stable(each)) is not None
        }
        return found or None
    if isinstance(value, list):
        return [_stable(each) for each in value] or None
    if isinstance(value, str):
        return None if not value or is_address(value) else unicodedata.normalize("NFC", value)
    return by_value(value) if isinstance(value, float) else value


def is_address(value: object) -> bool:
    """Return whether a value is an address."""
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def by_value(value: float) -> float | int:
    """Return a number as an integer if it is whole."""
    return int(Decimal(repr(value))) if value.is_integer() else value


@cache
def _is_count(name: str) -> bool:
    """Return whether a key is the name of a count, in snake_case or camelCase."""
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    return snake in _COUNT_WORDS or name in _COUNT_WORDS or bool(re.search(r"_counts?$|^counts?$", snake))


def _counts(key: str, value: object) -> bool:
    return _is_count(key) and count_of(value) is not None


def at(item: object, path: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the value at a JSON Pointer; None if there is none."""
    for key in path.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        item = item.get(name) if isinstance(item, dict) else None
    return item


def text_of(value: object) -> str | None:
    """Return a text that is not empty, a number or a boolean as text; None for anything else."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(by_value(value) if isinstance(value, float) else value)
    return value if isinstance(value, str) and value else None


def count_of(value: object) -> int | None:
    """Read an integer, written as a number or as text."""
    text = None if isinstance(value, bool) else text_of(value)
    number = int(text) if text is not None and re.fullmatch(r"-?\d{1,19}", text) else None
    return number if number is not None and number in _INT64 else None


def time_of(value: object) -> datetime | None:
    """Read a time, written as ISO 8601 with a zone, or as seconds or milliseconds since 1970."""
    text = text_of(value) or ""
    if re.fullmatch(r"[1-9](\d{9}|\d{12})", text):
        return datetime.fromtimestamp(int(text) / (1000 if len(text) > 10 else 1), UTC)
    if not _INSTANT.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(re.sub(r"([+-]\d\d)$", r"\1:00", text))
    except ValueError:
        return None


def _read(name: str, value: object) -> Any:  # noqa: ANN401 - any column type
    return count_of(value) if name in COUNTS else time_of(value) if name == "published_at" else text_of(value)


def source(item: Item, name: str) -> str | None:
    """Return the path of a canonical column's value: the first of its paths where one can be read."""
    return next((path for path in BUILT_IN[name] if _read(name, at(item, path)) is not None), None)


def sources(item: Item) -> set[str | None]:
    """Return the paths of what columns show of an item, its id included."""
    return {*(source(item, name) for name in _COLUMNS), _id_path(item)}


def canonical(item: Item, name: str) -> Any:  # noqa: ANN401 - any column type
    """Return the value of a canonical column."""
    path = source(item, name)
    return None if path is None else _read(name, at(item, path))


def _id_path(item: object) -> str | None:
    """Return the first of the paths of ids with a text that is not empty, a number or a boolean."""
    return next((path for path in BUILT_IN["media_id"] if text_of(at(item, path)) is not None), None)


def id_of(item: object) -> str | None:
    """THE RULE OF IDS: return the id of an item as text; None if it has none. It is a text or an exact integer."""
    path = _id_path(item)
    value = None if path is None else at(item, path)
    return None if isinstance(value, (bool, float)) else text_of(value)


def is_item(record: object) -> bool:
    """Return whether a record can be read, apart from its id."""
    if not isinstance(record, dict) or _levels(record) > _MOST_LEVELS:
        return False
    try:
        json.dumps(record, allow_nan=False)
    except ValueError:
        # A number beyond those of JSON.
        return False
    return True


def _levels(value: object) -> int:
    if not isinstance(value, (dict, list)):
        return 0
    return 1 + max(map(_levels, value.values() if isinstance(value, dict) else value), default=0)


def published(item: Item) -> datetime | None:
    """Return when an item was published."""
    found: datetime | None = canonical(item, "published_at")
    return found


def children(item: Item) -> list[tuple[int, str | None, str | None]]:
    """Return position, id and type of an item's children, if they are a list of objects."""
    for path in BUILT_IN["children"]:
        found = at(item, path)
        if isinstance(found, list) and found:
            return [(place, *_child(child)) for place, child in enumerate(found)]
    return []


def _child(child: object) -> tuple[str | None, str | None]:
    path = _id_path(child)
    return None if path is None else text_of(at(child, path)), canonical(child, "media_type")  # type: ignore[arg-type]
