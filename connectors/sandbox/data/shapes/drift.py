"""A shape based on the Graph API's whose fields and types change in the middle of a scan.

The first four posts of an account are at stage 0, the next four at stage 1, and so on, starting again after the last
stage. Thus a scan receives every stage, each with different types.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from connectors.sandbox.data.calendar import iso
from connectors.sandbox.data.shapes.known import graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from connectors.sandbox.data.posts import Item

Document = dict[str, Any]

_AT_A_STAGE = 4
_LONG_NAME = "a name that somebody thought would never be read by a machine, " * 5
_PLACES = ("Lisboa", "Karaköy", "Nørrebro")

# Names that are invalid or already used as column names, or that attempt SQL injection.
_HOSTILE: tuple[str, ...] = (
    '"; DROP TABLE media; --',
    "'); DELETE FROM core.media; --",
    'quo"te',
    "apostrophe's",
    "",
    " ",
    _LONG_NAME[:300],
    "select",
    "order",
    "Group",
    "left",
    "payload",
    "surface",
    "removed_at",
    "account_id",
    "digest",
    "rowid",
    "dotted.name.here",
    "sla/shed/name",
    "til~de~1",
    "back\\slash",
    "$.path[*]",
    "emoji 🍞",
    "éclair",
    "名前",
    "1st",
    "tab\tand\nnewline",
    "bell\x07",
    "{braces}",
    "%s",
    "__proto__",
)


def _steady(item: Item) -> Document:
    return {
        "score": item.id % 100,
        "location": _PLACES[item.id % 3],
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
    }


def _counts_as_text(item: Item) -> Document:
    return {
        "like_count": str(item.likes),
        "comments_count": f"{item.comments}",
        "score": item.id % 100 + 0.5,
        "list_of_numbers": [item.id % 7 + 0.25],
        "insights": {"reach": item.reach, "saved": item.saves, "per_day": {"first": item.reach // 2}},
    }


def _objects(item: Item) -> Document:
    return {
        "location": {"name": _PLACES[item.id % 3], "geo": {"lat": item.id % 90 + 0.125, "lng": -(item.id % 180)}},
        "tags": [{"tag": "slow", "rank": item.id % 5}, {"tag": "warm", "by": {"pk": item.id % 11}}],
        "venue": {"id": item.id % 50, "city": None},
        "pinned": item.id % 2,
        "insights": {"reach": item.reach, "saved": None},
    }


def _hostile_names(item: Item) -> Document:
    named = {name: f"{number}: {item.id % 1000}" for number, name in enumerate(_HOSTILE)}
    return {**named, "Mood": "bright", "nul\x00byte": item.id % 10, "from": {**named, "where": {"limit": item.id % 9}}}


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
        "caption": {"text": "in an object: " + str(item.id % 100), "language": "en"},
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
    lambda _item: {},
    _counts_as_text,
    _objects,
    _hostile_names,
    _no_counts,
    _beyond,
    _everything_else,
)


def _in_time(item: Item, day: int) -> Document:
    # Existing items that change on later days: their types then differ from those of the stored items.
    if day and item.sequence % 5 == 0:
        return {"boost": {"level": f"level {item.id % 5}", "since_day": item.sequence % 3 or None}}
    return {}


def drift(item: Item, username: str, owner: int, day: int) -> str:
    """Render an item at the stage that follows from its number among the account's posts."""
    document: Document = json.loads(graph(item, username, owner, day))
    stage = _STAGES[item.sequence // _AT_A_STAGE % len(_STAGES)]
    document |= {**_steady(item), **stage(item), **_in_time(item, day)}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
