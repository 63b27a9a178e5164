"""The sandbox with what else the API may do: odd items and feeds, wrong pages, scripted faults, broken connections."""

import asyncio
import json
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from connectors.sandbox.contract import ACCOUNTS_PATH, ERRORS, POSTS, SURFACES, Error
from connectors.sandbox.data.catalogue import FIRST_ACCOUNT, FIRST_ITEM, Catalogue, owner
from connectors.sandbox.data.draw import Draw
from connectors.sandbox.data.items import Item
from connectors.sandbox.data.population import Account
from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.control import PREFIX
from connectors.sandbox.http.cursors import Cursors
from connectors.sandbox.http.replies import Message, PageRequest, Receive, Refused, Reply, Resource, Scope, Send
from connectors.sandbox.settings import SandboxSettings
from tests.odd_api.faults import TAMPERINGS, Action, Rule, Scene, Script, items_taken, rule_from_json, spoil
from tests.odd_api.feeds import PLAIN_FEED, ArrangedPosts, FeedSettings
from tests.odd_api.requests import RequestLog
from tests.odd_api.shapes import SHAPES

_PROXY_PAGE = (
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n"
    b"<center><h1>502 Bad Gateway</h1></center>\r\n</body>\r\n</html>\r\n"
)
_JSON = (b"content-type", b"application/json")


def truth(catalogue: Catalogue, day: int) -> Iterator[tuple[Account, str, str]]:
    """Yield (account, surface, item as JSON text) for all items on a day."""
    for account in catalogue.accounts(day):
        for surface in SURFACES:
            for _, text in catalogue.items(account, surface, day):
                yield account, surface, text


class OddCatalogue(Catalogue):
    """Items in any shape, and posts in any order."""

    def __init__(self, settings: SandboxSettings, shape: str, feed: FeedSettings) -> None:
        super().__init__(settings)
        self._shapes = SHAPES[shape]
        if feed != PLAIN_FEED:
            self.surfaces[POSTS] = ArrangedPosts(settings, self.draw, self.identity, feed)

    def render(self, item: Item, account: Account, day: int) -> str:
        """Return an item as JSON text in the account's shape."""
        shape = self._shapes[account.position % len(self._shapes)]
        return shape(item, account.ig_username, owner(account), day)


class OddCursors(Cursors):
    """Cursors that may have a suffix, so that an anchor has any number of them."""

    def read(self, text: str, resource: Resource) -> int | None:
        """Return the anchor of a cursor, or None if it is not valid for this resource."""
        return super().read(text.partition("~")[0], resource)


@dataclass(frozen=True, slots=True)
class OddReply(Reply):
    """A reply with any `headers`, whose connection may end too early.

    `ending`: "cut" closes the connection after half of the body, "reset" resets it without sending anything; without a
    connection, it raises ConnectionResetError.
    """

    correlated: bool = True
    ending: str = ""

    def fields(self, correlation_id: str) -> list[tuple[bytes, bytes]]:
        """Return all headers."""
        traced = [(b"x-correlation-id", correlation_id.encode())] if self.correlated else []
        return [*self.headers, *traced, (b"content-length", b"%d" % len(self.body))]

    async def send(self, correlation_id: str, receive: Receive, send: Send) -> None:
        """Send the reply over ASGI."""
        if self.ending == "reset":
            await _reset(receive)
            return
        await send({"type": "http.response.start", "status": self.status, "headers": self.fields(correlation_id)})
        is_cut = self.ending == "cut"
        body = self.body[: len(self.body) // 2] if is_cut else self.body
        # If more is announced and does not come, the server closes the connection.
        await send({"type": "http.response.body", "body": body, "more_body": is_cut})


async def _reset(receive: Receive) -> None:
    transport = getattr(getattr(receive, "__self__", None), "transport", None)
    if transport is None:
        message = "the sandbox reset this connection, by script"
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
        super().__init__(ERRORS.get(action.code, Error.INTERNAL_ERROR))
        self._action = action

    def reply(self, correlation_id: str) -> Reply:
        """Return the error reply."""
        action, known = self._action, ERRORS.get(self._action.code)
        status = action.status or (known.status if known else 400)
        error: dict[str, Any] = {"code": action.code, "message": known.message if known else "Made up."}
        if action.correlated:
            error["correlation_id"] = correlation_id
        if known is Error.VALIDATION_ERROR:
            error["details"] = {"issues": [{"code": "unrecognized_keys", "path": [0]}]}
        headers = [_JSON, *([(b"www-authenticate", b"Bearer")] if status == 401 else [])]
        wait = 1 if action.retry_after is None and status == 429 else action.retry_after
        if wait is not None and wait is not False:
            headers.append((b"retry-after", str(wait).encode()))
        return OddReply(status, json.dumps({"error": error}).encode(), headers, correlated=action.correlated)


# The replies instead of a page: arguments are the action and the page.
_REPLIES: dict[str, Callable[[Action, bytes], Reply]] = {
    # A proxy in front of the service does not send correlation ids.
    "html_502": lambda _, __: OddReply(502, _PROXY_PAGE, [(b"content-type", b"text/html")], correlated=False),
    "plain_text": lambda _, __: OddReply(200, b"Service is up.\n", [(b"content-type", b"text/plain; charset=utf-8")]),
    "cut": lambda _, page: OddReply(200, page, [_JSON], ending="cut"),
    "reset": lambda _, __: OddReply(200, b"", ending="reset"),
    "redirect": lambda action, _: OddReply(action.status or 307, b"", [(b"location", action.url.encode())]),
    "oversize": lambda action, page: Reply(200, page.ljust(action.size)),
}


class OddApi(Sandbox):
    """A sandbox that also serves odd items and feeds, and the faults of its `script`; `log` has all requests."""

    def __init__(
        self,
        settings: SandboxSettings | None = None,
        rules: Iterable[Rule] = (),
        *,
        shape: str = "mixed",
        feed: FeedSettings = PLAIN_FEED,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        settings = settings or SandboxSettings()
        super().__init__(settings, catalogue=OddCatalogue(settings, shape, feed), clock=clock, sleep=sleep)
        self.script = Script(settings.seed, rules)
        self.log = RequestLog(clock)
        self._seeds = count(settings.seed)
        self._again = count()
        self.forget_cursors()
        for method, path, endpoint in (
            ("POST", "rules", self._replace_rules),
            ("GET", "stats", self.log.stats),
            ("GET", "requests", self.log.shown),
            ("DELETE", "requests", self.log.clear),
            ("GET", "accounts", self._accounts),
            ("GET", "media", self._media),
        ):
            self.control.add_api_route(f"{PREFIX}{path}", endpoint, methods=[method])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI connection scope, and log requests of the API."""
        if scope["type"] == "lifespan" or not scope["path"].startswith(ACCOUNTS_PATH):
            await super().__call__(scope, receive, send)
            return
        entry = self.log.begin(scope)

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.log.answer(scope, entry, message)
            await send(message)

        await super().__call__(scope, receive, note)

    def forget_cursors(self) -> None:
        """Invalidate all cursors issued so far."""
        self.cursors = OddCursors(Draw(next(self._seeds)))
        self.page.cache_clear()

    async def _replace_rules(self, rules: list[dict[str, Any]]) -> None:
        self.script.replace([rule_from_json(rule) for rule in rules])

    async def answer(self, request: PageRequest) -> Reply:
        """Answer a valid request, with the faults of the script that fire for it in order."""
        actions = self.script.fire(request)
        try:
            return self._reply(request, actions)
        finally:
            if delay := sum(action.seconds for action in actions if action.kind == "delay"):
                await self.sleep(delay)

    def _reply(self, request: PageRequest, actions: list[Action]) -> Reply:
        if any(action.kind == "forget_cursors" for action in actions):
            self.forget_cursors()
            if request.cursor is not None:
                raise Refused(Error.INVALID_CURSOR)
        tamperings = [action for action in actions if action.kind in TAMPERINGS]
        for action in tamperings:
            request = request._replace(limit=items_taken(action.kind, request.limit))
        page = self.page(request)
        for action in tamperings:
            page = spoil(page, self._scene(action, request))
        for action in actions:
            if action.kind == "error":
                raise OddError(action)
            if action.kind == "refuse_cursor":
                raise Refused(Error.INVALID_CURSOR)
            if action.kind in _REPLIES:
                return _REPLIES[action.kind](action, page)
        return Reply(200, page)

    def _scene(self, action: Action, request: PageRequest) -> Scene:
        first = FIRST_ACCOUNT if request.account is None else FIRST_ITEM
        again = self.cursors.issue(request.resource, request.anchor)
        return Scene(
            action,
            given=request.cursor,
            ends_first=json.loads(self.page(request._replace(cursor=None, anchor=first)))["next_cursor"],
            again=f"{again}~{next(self._again)}",
            media=request.account is not None,
        )

    async def _accounts(self) -> list[Any]:
        return [json.loads(account.json()) for account in self.catalogue.accounts(self.day)]

    async def _media(self) -> list[Any]:
        return [
            {"account_id": account.id, "surface": surface, "item": json.loads(text)}
            for account, surface, text in truth(self.catalogue, self.day)
        ]
