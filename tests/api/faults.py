"""Scripted faults: what an API does instead of sending a page, and for which requests."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, get_args

from connectors.sandbox.contract import ACCOUNTS, MEDIA
from connectors.sandbox.http.requests import PageRequest, Resource

JSON = {"Content-Type": "application/json"}
Headers = Mapping[str, str]
Page = dict[str, Any]
_OPERATIONS = {"accounts": (ACCOUNTS,), "media": (MEDIA,), "any": (ACCOUNTS, MEDIA)}

Kind = Literal[
    "error", "raw", "page", "cut", "reset", "delay", "refuse_cursor", "forget_cursors", "repeat_cursor", "empty_page"
]


@dataclass(frozen=True, slots=True)
class Action:
    """What a fault does.

    `error` is an error of API 7: `code`, `status` (by default the code's, or 400), and `retry_after`, which is sent
    verbatim, so it may be a date or invalid. None: 1 for a 429, which always has it, and otherwise absent; False:
    always absent. `raw` sends `body` with this `status`, by default 200, and these `headers`, by default that of JSON.
    Neither has a correlation id unless it is `correlated`. `page` sends what `change` returns of the page's bytes;
    `cut` half of them. `delay` waits for `seconds`. `empty_page` leads to the same page again, `repeat_cursor` to the
    page before.
    """

    kind: Kind
    code: str = "api_internal_error"
    status: int | None = None
    retry_after: int | str | Literal[False] | None = None
    correlated: bool = True
    body: bytes = b""
    headers: Headers | None = None
    change: Callable[[bytes], bytes] = bytes
    seconds: float = 1.0

    def __post_init__(self) -> None:
        assert self.kind in get_args(Kind), self.kind


def refuse(code: str, retry_after: int | str | Literal[False] | None = None, **more: Any) -> Action:  # noqa: ANN401 - fields of Action
    """Return an error with this code (API 7)."""
    return Action("error", code=code, retry_after=retry_after, **more)


def change_page(change: Callable[[Page], object]) -> Action:
    """Return an action that sends what `change` returns of the page, unless the page is broken already."""

    def of_bytes(body: bytes) -> bytes:
        try:
            return json.dumps(change(json.loads(body))).encode()
        except ValueError:
            return body

    return Action("page", change=of_bytes)


@dataclass(frozen=True, slots=True)
class Rule:
    """One scripted fault: an action, and conditions on the requests it affects, all of which must be true.

    `nth` is the number of the request, from 1, for each resource (account list, or account x surface). `probability` is
    0 to 1. `times` is how often the rule may fire in total.
    """

    action: Action
    operation: Literal["accounts", "media", "any"] = "any"
    account_id: str | None = None
    surface: str | None = None
    nth: int | None = None
    probability: float = 1.0
    times: int | None = None

    def covers(self, request: PageRequest, number: int) -> bool:
        """Return whether the conditions, except probability and times, hold for a resource's `number`-th request."""
        return (
            request.operation in _OPERATIONS[self.operation]
            and self.account_id in (None, request.account and request.account.id)
            and self.surface in (None, request.surface)
            and self.nth in (None, number)
            # Without a cursor these have no effect, so they do not fire and do not count.
            and (request.cursor is not None or self.action.kind not in ("refuse_cursor", "repeat_cursor"))
        )


class Script:
    """The current rules. Every rule that matches fires; requests are counted from the time the rules were set."""

    def __init__(self, seed: int, rules: Iterable[Rule] = ()) -> None:
        self._random = Random(seed)
        self.replace(rules)

    def replace(self, rules: Iterable[Rule] = ()) -> None:
        """Replace the rules and reset all counts."""
        self._rules = tuple(rules)
        self._fired: Counter[int] = Counter()
        self._requests: Counter[Resource] = Counter()

    def fire(self, request: PageRequest) -> list[Action]:
        """Count a request, and return the actions of the rules that fire for it, in order."""
        self._requests[request.resource] += 1
        number, actions = self._requests[request.resource], []
        for index, rule in enumerate(self._rules):
            is_left = rule.times is None or self._fired[index] < rule.times
            if is_left and rule.covers(request, number) and self._random.random() < rule.probability:
                self._fired[index] += 1
                actions.append(rule.action)
        return actions
