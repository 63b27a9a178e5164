"""Shapes of media items other than the Graph API's. The API does not document one (API 2): a client accepts all."""

from collections.abc import Callable

from connectors.sandbox.data.items import Document, Item, graph, iso

Shape = Callable[[Item, str, int, int], Document]

_CAMEL = {"media_type": "mediaType", "media_url": "mediaUrl"}
_FLAT_TYPE = {"IMAGE": "1", "VIDEO": "2", "CAROUSEL_ALBUM": "8"}
_CITIES = ("Lisboa", "Karaköy", "Nørrebro")


def camel(item: Item, username: str, owner: int, day: int) -> Document:
    """Return an item with camelCase names and nested metrics; missing values are null or empty."""
    record = graph(item, username, owner, day)
    children = record["children"]["data"] if item.children else []
    return {
        **{_CAMEL.get(name, name): record.get(name) for name in ("id", "caption", *_CAMEL, "permalink")},
        "publishedAt": f"{iso(item.published)}Z",
        "metrics": {"likes": item.likes, "comments": item.comments, "reach": item.likes * 7},
        "owner": {"id": str(owner), "username": username},
        "children": [{_CAMEL.get(name, name): value for name, value in child.items()} for child in children],
    }


def flat(item: Item, username: str, owner: int, day: int) -> Document:
    """Return an item with epoch seconds, counts as text, a plain `url`, and the media type as a number in text."""
    record = graph(item, username, owner, day)
    return {
        "id": record["id"],
        "caption": item.caption or "",
        "media_type": _FLAT_TYPE[item.media_type],
        "code": record["shortcode"],
        "url": record["media_url"],
        "permalink": record["permalink"],
        "taken_at": item.published,
        "like_count": str(item.likes),
        "comment_count": str(item.comments),
        "user": {"pk": owner, "username": username},
    }


def _steady(item: Item) -> Document:
    return {
        "score": item.id % 100,
        "location": _CITIES[item.id % 3],
        "tags": ["slow", "warm"][: item.id % 3],
        "edited_at": f"{iso(item.published + 60)}Z",
        "sponsor": None,
        "extras": {},
        "boost": {"level": item.id % 5},
        "productTags": [{"productName": f'The "big" tray, {number}', "price": 1.5} for number in range(item.id % 3)],
    }


# Other fields and types of the same names; hostile ones are in tests/harness and tests/security.
_STAGES: tuple[Callable[[Item], Document], ...] = (
    lambda _: {},
    lambda item: {
        "like_count": str(item.likes),
        "score": item.id % 100 + 0.5,
        "insights": {"reach": item.likes * 7, "saved": None},
    },
    lambda item: {
        "location": {"name": _CITIES[item.id % 3], "geo": {"lat": item.id % 90 + 0.125}},
        "tags": [{"tag": "slow", "rank": item.id % 5}],
        "nul\x00byte": item.id % 10,
    },
    lambda _: {"like_count": "many", "comments_count": None, "timestamp": "2026-13-45T99:99", "edited_at": "yesterday"},
    lambda item: {
        "serial": 2**63 + item.id,
        "caption": {"text": f"in an object: {item.id % 100}"},
        "timestamp": item.published * 1000,
        "like_count": {"value": item.likes},
        "tags": [1, "two", {"three": 3}, None],
        "extras": {"note": "not empty any more", "wides": [2**64, item.id % 3]},
        "boost": None,
    },
)


def drift(item: Item, username: str, owner: int, day: int) -> Document:
    """Return an item whose fields and types change within a scan: every four posts of an account, in five stages."""
    document = graph(item, username, owner, day) | _steady(item) | _STAGES[item.sequence // 4 % len(_STAGES)](item)
    if day and item.sequence % 5 == 0:
        # Existing items that change on later days: their types then differ from those of the stored items.
        document["boost"] = {"level": f"level {item.id % 5}", "since_day": item.sequence % 3 or None}
    if day % 2 and item.children:
        # Neither their number nor one of them changes, only their order.
        document["children"]["data"].reverse()
    return document


# The shapes of the accounts, in turn.
SHAPES: dict[str, tuple[Shape, ...]] = {
    "graph": (graph,),
    "camel": (camel,),
    "flat": (flat,),
    "mixed": (graph, camel, flat),
    "drift": (drift,),
}
