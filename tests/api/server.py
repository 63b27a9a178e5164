"""The API that tests run against: the sandbox with scripted faults, odd items, feeds and answers.

    api = Api(SandboxSettings(accounts=8), [Rule(Action("reset"), account_id=one, surface="posts", nth=2)])
    with api.serve(): ...                                   # on a socket; the address is `api.url`
    ApiClient(..., transport=ApiTransport(api))               # in this process, on the time of the running loop

`tests.api.listed.ListedApi` lists records as a test writes them.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Self
from urllib.parse import unquote

import httpx
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from connectors.sandbox.contract import ACCOUNTS_PATH, SURFACES
from connectors.sandbox.data.identity import Draw
from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.requests import Cursors, PageRequest, Refused
from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from flows.clock import SystemClock
from tests.api.asked import Asked
from tests.api.faults import JSON, Action, OddError, OddReply, Rule, Script
from tests.api.odd import PLAIN_FEED, FeedSettings, OddCatalogue


class Api(Sandbox):
    """A sandbox that a test scripts.

    `script` has the rules of faults. `fault` returns one for a valid request that no rule expresses, or an exception,
    which is raised where the request was sent if that is in this process. `requests` are those received, the oldest
    first. The time of its limits and delays is that of `clock`.
    """

    url = ""

    def __init__(
        self,
        settings: SandboxSettings | None = None,
        rules: Iterable[Rule] = (),
        *,
        feed: FeedSettings = PLAIN_FEED,
        drifts: bool = False,
        clock: Any = None,  # noqa: ANN401 - a subclass knows what it is
    ) -> None:
        settings = settings or SandboxSettings()
        catalogue = OddCatalogue(settings, feed, drifts=drifts)
        self.clock: Any = clock or SystemClock()
        super().__init__(settings, catalogue=catalogue, clock=self.clock.monotonic, sleep=self.clock.sleep)
        self.script = Script(settings.seed, rules)
        self.fault: Callable[[Asked], Action | BaseException | None] = lambda _: None
        self.requests: list[Asked] = []
        self._seeds = count(settings.seed)
        self.forget_cursors()

    @contextmanager
    def serve(self) -> Iterator[Self]:
        """Serve on a free port of 127.0.0.1 until the block ends."""
        with in_thread(self) as self.url:
            yield self

    def forget_cursors(self) -> None:
        """Invalidate all cursors issued so far."""
        self.cursors = Cursors(Draw(next(self._seeds)))

    def take_requests(self) -> list[Asked]:
        """Return the requests since the last call."""
        taken, self.requests = self.requests, []
        return taken

    def list_accounts(self) -> list[Any]:
        """Return the accounts of today, as they are listed."""
        return [account.record() for account in self.catalogue.accounts(self.day)]

    def ids(self, status: str) -> list[str]:
        """Return the ids of today's accounts that have this status."""
        return [account["id"] for account in self.list_accounts() if account["status"] == status]

    def list_media(self) -> list[tuple[str, str, Any]]:
        """Return (account id, surface, item) for all items of today."""
        return [
            (account.id, surface, item)
            for account in self.catalogue.accounts(self.day)
            for surface in SURFACES
            for _, item in self.catalogue.items(account, surface, self.day)
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI connection scope, and note requests of the API."""
        if scope["type"] == "lifespan" or not scope["path"].startswith(ACCOUNTS_PATH):
            await super().__call__(scope, receive, send)
            return
        asked = Asked.read(scope["path"], scope["query_string"])
        self.requests.append(asked)

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = dict(message["headers"])
                asked.status, asked.correlation_id = message["status"], headers.get(b"x-correlation-id", b"").decode()
            await send(message)

        await super().__call__(scope, receive, note)

    async def answer(self, request: PageRequest) -> Response:
        """Answer a valid request, with the faults that fire for it in order."""
        asked = self.requests[-1]
        actions, one = self.script.fire(asked), self.fault(asked)
        if isinstance(one, BaseException):
            raise one
        actions += [one] if one else []
        try:
            return self._reply(request, actions)
        finally:
            if delay := sum(action.seconds for action in actions if action.kind == "delay"):
                await self.sleep(delay)

    def _reply(self, request: PageRequest, actions: list[Action]) -> Response:
        kinds = {action.kind for action in actions}
        if "forget_cursors" in kinds:
            self.forget_cursors()
            if request.cursor is not None:
                raise Refused("api_invalid_cursor")
        page = self.render(request)
        if "repeat_cursor" in kinds:
            page = json.dumps({**json.loads(page), "next_cursor": request.cursor}).encode()
        for action in actions:
            match action.kind:
                case "error":
                    raise OddError(action)
                case "raw":
                    status, headers = action.status or 200, action.headers or JSON
                    return OddReply(action.body, headers, status=status, traced=action.correlated)
                case "cut" | "reset":
                    return OddReply(page, ending=action.kind)
                case "page":
                    page = action.change(page)
                case _:
                    pass
        return OddReply(page)


Header = tuple[bytes, bytes]
# Status, headers and body.
Answer = tuple[int, dict[str, str], bytes]


class _Body(httpx.AsyncByteStream):
    def __init__(self, headers: Mapping[str, str], body: bytes) -> None:
        self._body, self._length = body, int(headers.get("content-length", 0))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body
        if len(self._body) < self._length:
            message = "peer closed connection without sending complete message body"
            raise httpx.RemoteProtocolError(message)


class ApiTransport(httpx.AsyncBaseTransport):
    """Sends the requests of an HTTP client to an API in this process.

    What the API raises reaches the client.
    """

    def __init__(self, api: ASGIApp) -> None:
        self._api = api

    async def send(self, path: bytes, query: bytes, headers: Sequence[Header]) -> Answer:
        """Return the answer of the API."""
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": unquote(path.decode()), "raw_path": path}
        await self._api({**scope, "query_string": query, "headers": headers}, receive, send)
        fields = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return sent[0]["status"], fields, b"".join(message.get("body", b"") for message in sent[1:])

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request."""
        path, _, query = request.url.raw_path.partition(b"?")
        named = [(name.lower(), value) for name, value in request.headers.raw]
        status, headers, body = await self.send(path, query, named)
        return httpx.Response(status, headers=headers, stream=_Body(headers, body))
