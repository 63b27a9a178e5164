"""What an item's JSON says, by docs/mapping.md and docs/decisions/media-columns.md."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

Item = dict[str, Any]
Mapping = dict[str, tuple[str, ...]]

# The built-in mapping: the paths of each column, the first with a value counts.
BUILT_IN: Mapping = {
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
_WORDS = """
count likes comments shares saves saved bookmarks views plays reach impressions reposts replies reactions interactions
total_interactions engagement exits taps_forward taps_back swipes_forward follows profile_visits profile_activity clicks
"""
_COUNT_WORDS = {
    *_WORDS.split(),
    *(path.rpartition("/")[2] for name in COUNTS for path in BUILT_IN[name]),
}
# Objects at this depth are stored as JSON text.
_DEEPEST = 8
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)")
_SIGNATURE = re.compile(r"([?&])(_nc_\w+|oh|oe)=[^&]*")


def lasting(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """THE RULE OF ADDRESSES: return an item without the URL parameters that change with every response."""
    if isinstance(value, dict):
        return {name: lasting(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [lasting(inner) for inner in value]
    return _SIGNATURE.sub("", value) if isinstance(value, str) else value


def content(item: Item) -> str:
    """THE RULE OF CONTENT: return an item without counts and addresses, as text; another text is another version."""
    return json.dumps(_uncounted(lasting(item)), sort_keys=True)


def is_same(one: Item, other: Item) -> bool:
    """Return whether nothing has changed, counts included."""
    return bool(lasting(one) == lasting(other))


def _uncounted(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {name: _uncounted(inner) for name, inner in value.items() if not (_is_count(name) and _countable(inner))}
    return [_uncounted(inner) for inner in value] if isinstance(value, list) else value


@cache
def _is_count(name: str) -> bool:
    """Return whether a key is the name of a count, in snake_case or camelCase."""
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    return snake in _COUNT_WORDS or name in _COUNT_WORDS or bool(re.search(r"_counts?$|^counts?$", snake))


def _countable(value: object) -> bool:
    return value is None or (not isinstance(value, bool) and count_of(value) is not None)


def at(item: object, path: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the value at a JSON Pointer; None if there is none."""
    for key in path.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        item = item.get(name) if isinstance(item, dict) else None
    return item


def text_of(value: object) -> str | None:
    """Return a value as text: a string unchanged, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def count_of(value: object) -> int | None:
    """Read an integer, written as a number or as text."""
    text = text_of(value)
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,18}", text) else None


def time_of(value: object) -> datetime | None:
    """Read a time, written as ISO 8601 with a zone, or as seconds or milliseconds since 1970."""
    text = text_of(value) or ""
    if re.fullmatch(r"\d{9,10}|\d{12,13}", text):
        return datetime.fromtimestamp(int(text) / (1000 if len(text) > 10 else 1), UTC)
    if not _INSTANT.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(re.sub(r"([+-]\d\d)$", r"\1:00", text))
    except ValueError:
        return None


def canonical(item: Item, name: str, mapping: Mapping = BUILT_IN) -> Any:  # noqa: ANN401 - any column type
    """Return the value of a canonical column: that at the first of its paths where one can be read."""
    read = text_of if name in TEXTS else count_of if name in COUNTS else time_of
    return next((found for path in mapping[name] if (found := read(at(item, path))) is not None), None)


def id_of(item: object) -> str | None:
    """Return the id of an item, or of a child, as text; None if it has none."""
    found = (at(item, path) for path in BUILT_IN["media_id"])
    return next((str(one) for one in found if one not in (None, "") and not isinstance(one, (dict, list, bool))), None)


def published(item: Item) -> datetime | None:
    """Return when an item was published."""
    found: datetime | None = canonical(item, "published_at")
    return found


def children(item: Item) -> list[tuple[int, str | None, str | None]]:
    """Return position, id and type of an item's children, if they are a list of objects."""
    for path in BUILT_IN["children"]:
        found = at(item, path)
        if isinstance(found, list) and any(isinstance(child, dict) for child in found):
            return [
                (place, id_of(child), canonical(child, "media_type"))
                for place, child in enumerate(found)
                if isinstance(child, dict)
            ]
    return []


def leaves(item: Item, above: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield every path of an item that has a value, with the value, in document order."""
    for key, value in item.items():
        # A key with a NUL cannot be named by a query: it stays in the payload.
        if "\0" in key or value is None:
            continue
        path = f"{above}/{key.replace('~', '~0').replace('/', '~1')}"
        yield path, value
        if isinstance(value, dict) and depth < _DEEPEST:
            yield from leaves(value, path, depth + 1)


def counts(item: Item, names: dict[str, str]) -> dict[str, int]:
    """Return the counts of an item by column name: canonical columns, and other fields with the name of a count.

    A count that a canonical column shows is only that column's.
    """
    found = {name: canonical(item, name) for name in COUNTS}
    mapped = {path for name, paths in BUILT_IN.items() if name not in COUNTS for path in paths}
    for path, value in leaves(item):
        key = path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        if path not in mapped and not isinstance(value, (dict, list, bool)) and _is_count(key):
            count = count_of(value)
            if not any(path in BUILT_IN[name] and found[name] == count for name in COUNTS):
                found[names[path]] = count
    return {name: count for name, count in found.items() if count is not None}
