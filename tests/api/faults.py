"""Scripted faults: what an API does instead of sending a page, and for which requests."""

import json
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from connectors.sandbox.contract import ERRORS
from connectors.sandbox.http.requests import TRACE, Refused
from tests.api.asked import Asked

JSON = {"Content-Type": "application/json"}
Headers = Mapping[str, str]
Page = dict[str, Any]

Kind = Literal["error", "raw", "page", "cut", "reset", "delay", "forget_cursors", "repeat_cursor"]


@dataclass(frozen=True, slots=True)
class Action:
    """What a fault does.

    `error` is an error of API 7: `code`, `status` (by default the code's, or 400), and `retry_after`, which is sent
    verbatim, so it may be a date or invalid. None: 1 for a 429, which always has it, and otherwise absent; False:
    always absent. `raw` sends `body` with this `status`, by default 200, and these `headers`, by default that of JSON.
    Neither has a correlation id unless it is `correlated`. `page` sends what `change` returns of the page's bytes;
    `cut` half of them. `delay` waits for `seconds`. `repeat_cursor` leads to the same page again.
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


def refuse(code: str, retry_after: int | str | Literal[False] | None = None, **more: Any) -> Action:  # noqa: ANN401 - fields of Action
    """Return an error with this code (API 7)."""
    return Action("error", code=code, retry_after=retry_after, **more)


def from_gateway(status: int, body: bytes = b"<html>Access denied by policy.</html>") -> Action:
    """Return an answer that the service has not written: it has neither its envelope nor its correlation id."""
    return Action("raw", status=status, body=body, headers={"Content-Type": "text/html"}, correlated=False)


def change_page(change: Callable[[Page], object]) -> Action:
    """Return an action that sends what `change` returns of the page, unless the page is broken already."""

    def of_bytes(body: bytes) -> bytes:
        try:
            # Compact, as the sandbox writes it: a rejected record is recognized by its bytes.
            return json.dumps(change(json.loads(body)), separators=(",", ":")).encode()
        except ValueError:
            return body

    return Action("page", change=of_bytes)


@dataclass(frozen=True, slots=True)
class Rule:
    """One scripted fault: an action, and conditions on the requests it affects, all of which must be true.

    `nth` is the number of the request, from 1, for each partition. `probability` is 0 to 1. `times` is how often the
    rule may fire in total.
    """

    action: Action
    operation: Literal["accounts", "media", "any"] = "any"
    account_id: str | None = None
    surface: str | None = None
    nth: int | None = None
    probability: float = 1.0
    times: int | None = None

    def covers(self, asked: Asked, number: int) -> bool:
        """Return whether the conditions, except probability and times, hold for a partition's `number`-th request."""
        return (
            self.operation in ("any", asked.operation)
            and self.account_id in (None, asked.account_id)
            and self.surface in (None, asked.surface)
            and self.nth in (None, number)
            # Without a cursor it has no effect, so it does not fire and does not count.
            and (asked.cursor is not None or self.action.kind != "repeat_cursor")
        )


class Script:
    """The current rules. Every rule that matches fires; requests are counted from the time the rules were set."""

    def __init__(self, seed: int, rules: Iterable[Rule] = ()) -> None:
        self._random = Random(seed)
        self.replace(rules)

    def replace(self, rules: Iterable[Rule] = ()) -> None:
        """Replace the rules and reset all counts."""
        self._rules = tuple(rules)
        self._fired = Counter[int]()
        self._requests = Counter[tuple[str, str]]()

    def fire(self, asked: Asked) -> list[Action]:
        """Count a request, and return the actions of the rules that fire for it, in order."""
        self._requests[asked.partition] += 1
        number, actions = self._requests[asked.partition], []
        for index, rule in enumerate(self._rules):
            is_left = rule.times is None or self._fired[index] < rule.times
            if is_left and rule.covers(asked, number) and self._random.random() < rule.probability:
                self._fired[index] += 1
                actions.append(rule.action)
        return actions


class OddReply(Response):
    """A reply with these `headers` alone, without a correlation id unless it is `traced`, which may end too early.

    `ending`: "cut" closes the connection after half of the body, "reset" resets it without sending anything; without a
    connection, it raises ConnectionResetError.
    """

    def __init__(
        self, body: bytes, headers: Headers = JSON, *, status: int = 200, traced: bool = True, ending: str = ""
    ) -> None:
        super().__init__(body, status, headers)
        self._is_traced, self._ending = traced, ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the reply over ASGI."""
        if self._ending == "reset":
            await _hang_up(receive)
            return
        if not self._is_traced:
            del self.headers[TRACE]
        if self._ending == "cut":
            # If more is announced and does not come, the server closes the connection.
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": self.body[: len(self.body) // 2], "more_body": True})
        else:
            await super().__call__(scope, receive, send)


async def _hang_up(receive: Receive) -> None:
    transport = getattr(getattr(receive, "__self__", None), "transport", None)
    if transport is None:
        message = "the API reset this connection, by script"
        raise ConnectionResetError(message)
    # With a linger time of 0 seconds, closing the socket sends a reset.
    linger = struct.pack("ii", 1, 0)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()
    # Until the server has noticed it, it would send a response of its own.
    while (await receive())["type"] != "http.disconnect":
        pass


class OddError(Refused):
    """An error as scripted, also with a code that the API does not have."""

    def __init__(self, action: Action) -> None:
        super().__init__(action.code)
        self._action = action

    def reply(self, correlation_id: str) -> Response:
        """Return the error reply."""
        action = self._action
        usual, message = ERRORS.get(action.code, (400, "Made up."))
        status = action.status or usual
        error: dict[str, object] = {"code": action.code, "message": message}
        if action.code == "api_validation_error":
            error["details"] = {"issues": [{"code": "unrecognized_keys", "path": [0]}]}
        if action.correlated:
            error["correlation_id"] = correlation_id
        wait = 1 if action.retry_after is None and status == 429 else action.retry_after
        waits = {} if wait is None or wait is False else {"Retry-After": str(wait)}
        authenticate = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        body = json.dumps({"error": error}).encode()
        return OddReply(body, {**JSON, **authenticate, **waits}, status=status, traced=action.correlated)
