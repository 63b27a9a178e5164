"""Shapes of media items other than the Graph API's. The API does not document one (API 2): a client accepts all."""

import json
from collections.abc import Callable
from typing import Any

from connectors.sandbox.data.items import SITE, Item, graph, iso, shortcode, signed

Document = dict[str, Any]
Shape = Callable[[Item, str, int, int], str]

_FLAT_TYPE = {"IMAGE": "1", "VIDEO": "2", "CAROUSEL_ALBUM": "8"}


def camel(item: Item, username: str, owner: int, day: int) -> Document:
    """Return an item with camelCase names and nested metrics; missing values are null or empty."""
    return {
        "id": str(item.id),
        "caption": item.caption,
        "mediaType": item.media_type,
        "mediaUrl": signed(item.id, item.media_type, day),
        "permalink": f"{SITE}/p/{shortcode(item.id)}/",
        "publishedAt": f"{iso(item.published)}Z",
        "metrics": {"likes": item.likes, "comments": item.comments, "reach": item.likes * 7},
        "owner": {"id": str(owner), "username": username},
        "children": [
            {"id": str(child.id), "mediaType": child.media_type, "mediaUrl": signed(child.id, child.media_type, day)}
            for child in item.children
        ],
    }


def flat(item: Item, username: str, owner: int, day: int) -> Document:
    """Return an item with epoch seconds, counts as text, a plain `url`, and the media type as a number in text."""
    return {
        "id": str(item.id),
        "caption": item.caption or "",
        "media_type": _FLAT_TYPE[item.media_type],
        "code": shortcode(item.id),
        "url": signed(item.id, item.media_type, day),
        "permalink": f"{SITE}/p/{shortcode(item.id)}/",
        "taken_at": item.published,
        "like_count": str(item.likes),
        "comment_count": str(item.comments),
        "user": {"pk": owner, "username": username},
    }


# Names that are invalid or already used as column names, or that attempt SQL injection.
_HOSTILE_NAMES = (
    '"; DROP TABLE media; --', "'); DELETE FROM core.media; --", 'quo"te', "apostrophe's", "", " ",
    ("a name that somebody thought would never be read by a machine, " * 5)[:300],
    "select", "order", "Group", "left", "payload", "surface", "removed_at", "account_id", "digest", "rowid",
    "dotted.name.here", "sla/shed/name", "til~de~1", "back\\slash", "$.path[*]", "emoji 🍞", "éclair", "名前", "1st",
    "tab\tand\nnewline", "bell\x07", "{braces}", "%s", "__proto__",
)  # fmt: skip
_ROUGH_CAPTIONS = (
    "<b>BIG</b> news & <script>alert('brunch')</script> =SUM(croissants) {{draft}} ${1} %s",
    '\x1b[31mred\x1b[0m carpet,\ttabs\tand a bell\x07; Robert\'); DROP TABLE media;-- C:\\photos\\"final"',
    "\u202eright to left\u202c and back \u200b\u2028 again",
)
_CITIES = ("Lisboa", "Karaköy", "Nørrebro")


def _steady(item: Item) -> Document:
    return {
        "score": item.id % 100,
        "location": _CITIES[item.id % 3],
        "tags": ["slow", "warm"][: item.id % 3],
        "pinned": item.id % 2 == 0,
        "edited_at": f"{iso(item.published + 60)}Z",
        "sponsor": None,
        "attachments": [],
        "extras": {},
        "mood": "calm",
        "serial": item.id % 1000,
        "venue": item.id % 50,
        "boost": {"level": item.id % 5},
        "list_of_numbers": [item.id % 7, 2],
        "fullSize": {"widthPx": 1080, "aspectRatio": (8 - item.id % 3) / 8},
        "productTags": [
            {
                "productName": f'The "big" tray, {number}',
                "price": {"amount": item.id % 400 / 4},
                "sizes": [item.id % 40],
            }
            for number in range(item.id % 5 - 2)
        ],
    }


def _counts_as_text(item: Item) -> Document:
    return {
        "like_count": str(item.likes),
        "comments_count": str(item.comments),
        "score": item.id % 100 + 0.5,
        "list_of_numbers": [item.id % 7 + 0.25],
        "insights": {"reach": item.likes * 7, "per_day": {"first": item.likes * 3}},
    }


def _objects(item: Item) -> Document:
    return {
        "location": {"name": _CITIES[item.id % 3], "geo": {"lat": item.id % 90 + 0.125, "lng": -(item.id % 180)}},
        "tags": [{"tag": "slow", "rank": item.id % 5}, {"tag": "warm", "by": {"pk": item.id % 11}}],
        "venue": {"id": item.id % 50, "city": None},
        "pinned": item.id % 2,
        "insights": {"reach": item.likes * 7, "saved": None},
    }


def _hostile(item: Item) -> Document:
    named = {name: f"{number}: {item.id % 1000}" for number, name in enumerate(_HOSTILE_NAMES)}
    inner = {**named, "where": {"limit": item.id % 9}}
    caption = _ROUGH_CAPTIONS[item.id % len(_ROUGH_CAPTIONS)]
    return {**named, "Mood": "bright", "nul\x00byte": item.id % 10, "from": inner, "caption": caption}


def _no_counts(item: Item) -> Document:
    return {
        "like_count": "many",
        "comments_count": None,
        "timestamp": "2026-13-45T99:99",
        "edited_at": "yesterday",
        "score": "high",
        "Mood": item.id % 3,
        "attachments": ["a", None, "b"],
    }


def _beyond(item: Item) -> Document:
    deep: object = item.id % 100
    for level in range(14, 0, -1):
        deep = {f"level{level}": deep}
    return {
        "serial": 2**63 + item.id,
        "wide": -(10**40) - item.id,
        "largest": 2**63 - 1,
        "tiny": 5e-324 * (1 + item.id % 9),
        "deep": deep,
        "extras": {"note": "not empty any more", "wides": [2**64, item.id % 3]},
        "timestamp": item.published * 1000,
        "sponsor": {"name": "Ateliê", "since": f"{iso(item.published)}+02:00"},
    }


def _everything_else(item: Item) -> Document:
    return {
        "caption": {"text": f"in an object: {item.id % 100}", "language": "en"},
        "timestamp": item.published,
        "like_count": {"value": item.likes},
        "likes": item.likes,
        "tags": [1, "two", {"three": 3}, [4], None, True],
        "location": [],
        "sponsor": "somebody",
        "attachments": {"first": "a"},
        "extras": None,
        "mood": ["calm", "bright"],
        "boost": None,
        "Tags": [],
        "matrix": [[1, 2], [3]],
    }


_STAGES: tuple[Callable[[Item], Document], ...] = (
    lambda _: {}, _counts_as_text, _objects, _hostile, _no_counts, _beyond, _everything_else,
)  # fmt: skip


def drift(item: Item, username: str, owner: int, day: int) -> Document:
    """Return an item whose fields and types change within a scan: every four posts of an account, in seven stages."""
    document: Document = json.loads(graph(item, username, owner, day))
    document |= {**_steady(item), **_STAGES[item.sequence // 4 % len(_STAGES)](item)}
    if day and item.sequence % 5 == 0:
        # Existing items that change on later days: their types then differ from those of the stored items.
        document["boost"] = {"level": f"level {item.id % 5}", "since_day": item.sequence % 3 or None}
    return document


def _as_text(shape: Callable[[Item, str, int, int], Document]) -> Shape:
    return lambda *of: json.dumps(shape(*of), ensure_ascii=False, separators=(",", ":"))


_CAMEL, _FLAT = _as_text(camel), _as_text(flat)
# The shapes of the accounts, in turn.
SHAPES: dict[str, tuple[Shape, ...]] = {
    "graph": (graph,),
    "camel": (_CAMEL,),
    "flat": (_FLAT,),
    "mixed": (graph, _CAMEL, _FLAT),
    "drift": (_as_text(drift),),
}
