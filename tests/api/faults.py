"""Scripted faults: which requests a fault affects, and pages that are wrong."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from connectors.sandbox.contract import ACCOUNTS, MAX_CURSOR, MAX_LIMIT, MEDIA
from connectors.sandbox.data.identity import Draw
from connectors.sandbox.http.replies import PageRequest, Resource

OPERATIONS = {"accounts": (ACCOUNTS,), "media": (MEDIA,), "any": (ACCOUNTS, MEDIA)}
JSON = {"Content-Type": "application/json"}
Headers = Mapping[str, str]
_TOPIC = 40
_WHOLE = 1 << 64


@dataclass(frozen=True, slots=True)
class Action:
    """What a fault does: one of ACTIONS; every other field is used by one kind only.

    `code`, `status` (by default the code's, or 400), `retry_after` and `correlated` are those of an `error`.
    `retry_after` is sent verbatim, so it may be a date or invalid; None: 1 for a 429, which always has it (API 7), and
    otherwise absent; False: always absent. Without `correlated`, no correlation id is sent. `raw` sends `body` with
    this `status`, by default 200, and these `headers`. `page` sends what `change` returns of the page's bytes.
    `variant` is one of MALFORMED, `seconds` the time of a `delay`, `size` the bytes of an `oversize`.
    """

    kind: str
    code: str = "api_internal_error"
    status: int | None = None
    retry_after: int | str | Literal[False] | None = None
    correlated: bool = True
    body: bytes = b""
    headers: Headers = field(default_factory=lambda: JSON)
    change: Callable[[bytes], bytes] = bytes
    variant: str = "no_id"
    seconds: float = 1.0
    size: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        assert self.kind in ACTIONS, self.kind
        assert self.variant in MALFORMED, self.variant


def refuse(code: str, retry_after: int | str | None = None, **more: Any) -> Action:  # noqa: ANN401 - fields of Action
    """Return an error with this code (API 7)."""
    return Action("error", code=code, retry_after=retry_after, **more)


@dataclass(frozen=True, slots=True)
class Rule:
    """One scripted fault: an action, and conditions on the requests it affects, all of which must be true.

    `nth` and `every` are the number of the request, from 1, for each resource (account list, or account x surface).
    `probability`, 0 to 1, is computed from the seed and the number of matching requests so far. `times` is how often
    the rule may fire in total.
    """

    action: Action
    operation: Literal["accounts", "media", "any"] = "any"
    account_id: str | None = None
    surface: str | None = None
    first_page: bool | None = None
    nth: int | None = None
    every: int | None = None
    probability: float | None = None
    times: int | None = None

    def covers(self, request: PageRequest, number: int) -> bool:
        """Return whether the conditions, except probability and times, hold for a resource's `number`-th request."""
        first = request.cursor is None
        return (
            request.operation in OPERATIONS[self.operation]
            and self.account_id in (None, request.account and request.account.id)
            and self.surface in (None, request.surface)
            and self.first_page in (None, first)
            and self.nth in (None, number)
            and (self.every is None or number % self.every == 0)
            # Without a cursor these have no effect, so they do not fire and do not count.
            and not (first and self.action.kind in ("refuse_cursor", "repeat_cursor"))
        )


class Script:
    """The current rules. Every rule that matches fires; requests are counted from the time the rules were set."""

    def __init__(self, seed: int, rules: Iterable[Rule] = ()) -> None:
        self._draw = Draw(seed)
        self.replace(rules)

    def replace(self, rules: Iterable[Rule] = ()) -> None:
        """Replace the rules and reset all counts."""
        self.rules = tuple(rules)
        self.fired: Counter[int] = Counter()
        self._candidates: Counter[int] = Counter()
        self._requests: Counter[Resource] = Counter()

    def fire(self, request: PageRequest) -> list[Action]:
        """Count a request, and return the actions of the rules that fire for it, in order."""
        self._requests[request.resource] += 1
        number = self._requests[request.resource]
        covering = (index for index, rule in enumerate(self.rules) if rule.covers(request, number))
        return [self.rules[index].action for index in covering if self._fires(index, self.rules[index])]

    def _fires(self, index: int, rule: Rule) -> bool:
        if rule.times is not None and self.fired[index] >= rule.times:
            return False
        self._candidates[index] += 1
        drawn = self._draw.one(_TOPIC, index, self._candidates[index])
        if rule.probability is not None and drawn >= rule.probability * _WHOLE:
            return False
        self.fired[index] += 1
        return True


Page = dict[str, Any]
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
    "numeric_id": {"id": 17},
    "bad_uuid": {"id": "not-a-uuid"},
    "long_username": {"ig_username": "g" * 31},
    "bad_public_id": {"public_id": "Ghost-Account"},
    "bad_status": {"status": "paused"},
    "null": None,
    "string": "ghost.account",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """The context of a wrong page: the action, the request's cursor, and a new one that leads to the page again."""

    action: Action
    given: str | None
    again: str
    media: bool


def _ghost(variant: str) -> object:
    wrong = MALFORMED[variant]
    if not isinstance(wrong, dict):
        return wrong
    return {name: value for name, value in {**GHOST, **wrong}.items() if value is not _ABSENT}


def _malformed_account(page: Page, scene: Scene) -> Page:
    half, ghost = len(page["items"]) // 2, _ghost(scene.action.variant)
    return page if scene.media else {**page, "items": [*page["items"][:half], ghost, *page["items"][half:]]}


def _item_without_id(page: Page, _: Scene) -> Page:
    copies = [{name: value for name, value in item.items() if name != "id"} for item in page["items"][:1]]
    return {**page, "items": [*page["items"][:1], *copies, *page["items"][1:]]}


def _texts(text: str) -> Callable[[Page, Scene], Page]:
    def change(page: Page, scene: Scene) -> Page:
        field = "caption" if scene.media else "ig_username"
        return {**page, "items": [{**item, field: text} for item in page["items"][:1]] + page["items"][1:]}

    return change


def _cursor(choose: Callable[[Page, Scene], object]) -> Callable[[Page, Scene], Page]:
    return lambda page, scene: {**page, "next_cursor": choose(page, scene)}


TAMPERINGS: dict[str, Callable[[Page, Scene], Page]] = {
    "malformed_account": _malformed_account,
    "item_without_id": _item_without_id,
    # Another item, or an account with another status, has the id of the first one.
    "shared_id": lambda page, scene: {
        **page,
        "items": [
            *page["items"],
            *(
                {**item, "id": page["items"][0]["id"]} if scene.media else {**item, "status": "paused"}
                for item in page["items"][-1:]
            ),
        ],
    },
    "item_twice": lambda page, _: {**page, "items": page["items"] + page["items"][:1]},
    "extra_item_field": lambda page, _: {
        **page, "items": [{**item, "sandbox_extra": "not in the contract"} for item in page["items"]]
    },
    "extra_page_field": lambda page, _: {**page, "sandbox_extra": {"not": "in the contract"}},
    "too_many_items": lambda page, _: {
        **page, "items": page["items"] + page["items"][-1:] * (MAX_LIMIT + 1 - len(page["items"]))
    },
    "empty_page": lambda page, scene: {**page, "items": [], "next_cursor": scene.again},
    "repeat_cursor": _cursor(lambda _, scene: scene.given),
    "long_cursor": _cursor(lambda _, __: "c" * (MAX_CURSOR + 1)),
    "no_cursor": lambda page, _: {"items": page["items"]},
    "invalid_utf8": _texts(_INVALID),
    "lone_surrogate": _texts("half an emoji: \ud83c"),
    "items_not_array": lambda page, _: {**page, "items": {}},
}  # fmt: skip
# Kinds of faults that replace the page, or change what the server does: see `server.py`.
DISRUPTIONS = ("error", "raw", "page", "cut", "reset", "redirect", "oversize", "refuse_cursor")
ACTIONS = frozenset({*TAMPERINGS, *DISRUPTIONS, "delay", "forget_cursors"})


def items_taken(kind: str, limit: int) -> int:
    """Return how many items of the catalogue a page has if `limit` were requested, so that it keeps its length."""
    if kind == "too_many_items":
        return MAX_LIMIT + 1
    return max(1, limit - (kind in ("malformed_account", "item_without_id", "item_twice", "shared_id")))


def spoil(rendered: bytes, scene: Scene) -> bytes:
    """Return a rendered page with a tampering applied; unchanged if an earlier one has made the page invalid."""
    try:
        page = json.loads(rendered)
    except ValueError:
        return rendered
    if not isinstance(page.get("items"), list):
        return rendered
    kind = scene.action.kind
    spoilt = json.dumps(TAMPERINGS[kind](page, scene)).encode()
    if kind != "invalid_utf8":
        return spoilt
    return spoilt.replace(_INVALID.encode(), b"\xc3\x28\xff") if page["items"] else b"\xff" + spoilt
