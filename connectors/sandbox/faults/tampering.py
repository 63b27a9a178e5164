"""Changes pages so that they are wrong. The catalogue is not affected: only the rendered page changes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from connectors.sandbox.contract import MAX_CURSOR, MAX_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable

    from connectors.sandbox.faults.rules import Action

Document = dict[str, Any]
GHOST = {
    "id": "00000000-0000-4000-8000-000000000bad",
    "ig_username": "ghost.account",
    "public_id": "GhostAccount1",
    "status": "active",
}
_ABSENT = object()
_INVALID = "-sandbox-invalid-utf-8-"

# What is wrong with the malformed account, by variant: changed fields, or a value that is not an object.
MALFORMED: dict[str, object] = {
    "no_id": {"id": _ABSENT},
    "null_id": {"id": None},
    "numeric_id": {"id": 17},
    "bad_uuid": {"id": "not-a-uuid"},
    "no_username": {"ig_username": _ABSENT},
    "empty_username": {"ig_username": ""},
    "bad_username": {"ig_username": "ghost account!"},
    "long_username": {"ig_username": "g" * 31},
    "short_public_id": {"public_id": "Ghost"},
    "bad_public_id": {"public_id": "Ghost-Account"},
    "no_status": {"status": _ABSENT},
    "bad_status": {"status": "paused"},
    "null": None,
    "string": "ghost.account",
    "array": ["ghost.account"],
}


@dataclass(frozen=True, slots=True)
class Scene:
    """The context of a tampering: the request's cursor, the first page's next cursor, and a new cursor of this page."""

    given: str | None
    ends_first: str | None
    again: str
    media: bool


@dataclass(frozen=True, slots=True)
class Tampering:
    """A way to change a page: ``spoil`` returns the page, or bytes to send unchanged.

    ``room`` items fewer than requested are taken from the catalogue, so that the page keeps its length. If ``length``
    is set, that number of items is taken instead.
    """

    spoil: Callable[[Document, Action, Scene], Document | bytes]
    room: int = 0
    length: int | None = None

    def taken(self, limit: int) -> int:
        """Return how many items to take from the catalogue if ``limit`` were requested."""
        return self.length if self.length is not None else max(1, limit - self.room)


def _ghost(variant: str) -> object:
    wrong = MALFORMED[variant]
    if not isinstance(wrong, dict):
        return wrong
    return {name: value for name, value in {**GHOST, **wrong}.items() if value is not _ABSENT}


def _malformed_account(page: Document, action: Action, scene: Scene) -> Document:
    if not scene.media:
        page["items"].insert(len(page["items"]) // 2, _ghost(action.variant))
    return page


def _item_without_id(page: Document, _action: Action, _scene: Scene) -> Document:
    if page["items"]:
        copy = {name: value for name, value in page["items"][0].items() if name != "id"}
        page["items"].insert(1, copy)
    return page


def _item_twice(page: Document, _action: Action, _scene: Scene) -> Document:
    page["items"].extend(page["items"][:1])
    return page


def _extra_item_field(page: Document, _action: Action, _scene: Scene) -> Document:
    for item in page["items"]:
        item["sandbox_extra"] = "not in the contract"
    return page


def _extra_page_field(page: Document, _action: Action, _scene: Scene) -> Document:
    return {**page, "sandbox_extra": {"not": "in the contract"}}


def _too_many(page: Document, _action: Action, _scene: Scene) -> Document:
    items = page["items"]
    items.extend(items[-1:] * (MAX_LIMIT + 1 - len(items)))
    return page


def _empty(page: Document, _action: Action, scene: Scene) -> Document:
    return {**page, "items": [], "next_cursor": scene.again}


def _cursor(choose: Callable[[Document, Scene], object]) -> Callable[[Document, Action, Scene], Document]:
    def change(page: Document, _action: Action, scene: Scene) -> Document:
        cursor = choose(page, scene)
        changed = {name: value for name, value in page.items() if name != "next_cursor"}
        return changed if cursor is _ABSENT else {**changed, "next_cursor": cursor}

    return change


def _turned_back(page: Document, scene: Scene) -> object:
    # The second page must continue normally; otherwise this would be a repeated cursor instead of a cycle.
    if scene.given in (None, scene.ends_first):
        return page["next_cursor"] or scene.again
    return scene.ends_first or scene.given


def _text_field(scene: Scene) -> str:
    return "caption" if scene.media else "ig_username"


def _invalid_utf8(page: Document, _action: Action, scene: Scene) -> bytes:
    for item in page["items"][:1]:
        item[_text_field(scene)] = _INVALID
    body = json.dumps(page, ensure_ascii=False).encode()
    return body.replace(_INVALID.encode(), b"\xc3\x28\xff") if page["items"] else b"\xff" + body


def _lone_surrogate(page: Document, _action: Action, scene: Scene) -> Document:
    for item in page["items"][:1]:
        item[_text_field(scene)] = "half an emoji: \ud83c"
    return page


TAMPERINGS: dict[str, Tampering] = {
    "malformed_account": Tampering(_malformed_account, room=1),
    "item_without_id": Tampering(_item_without_id, room=1),
    "item_twice": Tampering(_item_twice, room=1),
    "extra_item_field": Tampering(_extra_item_field),
    "extra_page_field": Tampering(_extra_page_field),
    "too_many_items": Tampering(_too_many, length=MAX_LIMIT + 1),
    "empty_page": Tampering(_empty),
    "repeat_cursor": Tampering(_cursor(lambda _page, scene: scene.given)),
    "cycle_cursors": Tampering(_cursor(_turned_back)),
    "long_cursor": Tampering(_cursor(lambda _page, _scene: "c" * (MAX_CURSOR + 1))),
    "no_cursor": Tampering(_cursor(lambda _page, _scene: _ABSENT)),
    "numeric_cursor": Tampering(_cursor(lambda _page, _scene: 17)),
    "invalid_utf8": Tampering(_invalid_utf8),
    "lone_surrogate": Tampering(_lone_surrogate),
    "items_not_array": Tampering(lambda page, _action, _scene: {**page, "items": {}}),
}


def spoil(rendered: bytes, tampering: Tampering, action: Action, scene: Scene) -> bytes:
    """Return a rendered page with a tampering applied; unchanged if an earlier one has made the page invalid."""
    try:
        page = json.loads(rendered)
    except ValueError:
        return rendered
    if not isinstance(page.get("items"), list):
        return rendered
    spoilt = tampering.spoil(page, action, scene)
    return spoilt if isinstance(spoilt, bytes) else json.dumps(spoilt).encode()
