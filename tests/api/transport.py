"""Connects HTTP clients with an API in this process, without sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import aiohttp
from multidict import CIMultiDict
from starlette.types import ASGIApp

from tests.api.asked import Asked

Header = tuple[bytes, bytes]


async def call(
    app: ASGIApp,
    path: bytes,
    query: bytes,
    headers: Sequence[Header],
    *,
    body: bytes = b"",
    method: str = "GET",
) -> tuple[int, dict[str, str], bytes]:
    """Send a request; return the status, the headers and the body of the response."""
    incoming: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return incoming.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query,
        "headers": headers,
    }
    await app(scope, receive, send)
    fields = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], fields, b"".join(message.get("body", b"") for message in sent[1:])


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and what the client got for it, at these times of the running loop.

    `status` is 0 if the connection was reset, and None if the client cancelled the request. `whole`: the body did not
    end early.
    """

    asked: Asked
    sent_at: float
    received_at: float
    status: int | None
    headers: dict[str, str]
    body: bytes
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """A response as an HTTP client gets it, whose body may end early."""

    status: int
    headers: CIMultiDict[str]
    body: bytes
    whole: bool = True

    @property
    def content(self) -> Self:
        """Return what has the body."""
        return self

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield the body. Raises ClientPayloadError at the end of one that is not whole."""
        yield self.body
        if not self.whole:
            message = "the response is not complete"
            raise aiohttp.ClientPayloadError(message)


class ApiTransport:
    """Sends the requests of an HTTP client to an API in this process, in place of aiohttp's session.

    `latency` returns the seconds that a request, and then its response, is on its way, on the time of the running loop.
    `sent` is called when the client sends a request, and `watch` when it gets a response or cancels the request. What
    the API raises reaches the client.
    """

    def __init__(
        self,
        api: ASGIApp,
        *,
        latency: Callable[[], float] = lambda: 0.0,
        sent: Callable[[Asked, float], None] = lambda _, __: None,
        watch: Callable[[Exchange], None] = lambda _: None,
    ) -> None:
        self._api = api
        self._latency, self._sent, self._watch = latency, sent, watch

    @asynccontextmanager
    async def get(self, url: str, *, headers: Mapping[str, str], **_: object) -> AsyncIterator[Reply]:
        """Yield the response to a request. Raises ConnectionResetError if the API resets the connection."""
        clock = asyncio.get_running_loop().time
        parts = urlsplit(url)
        path, query = parts.path, parts.query.encode()
        asked, sent_at = Asked.read(path, query), clock()
        self._sent(asked, sent_at)
        named = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        try:
            await asyncio.sleep(self._latency())
            try:
                status, answered, body = await call(self._api, path.encode(), query, named)
            except ConnectionResetError:
                status, answered, body = 0, {}, b""
            await asyncio.sleep(self._latency())
        except asyncio.CancelledError:
            self._watch(Exchange(asked, sent_at, clock(), None, {}, b""))
            raise
        whole = len(body) == int(answered.get("content-length", len(body)))
        self._watch(Exchange(asked, sent_at, clock(), status, answered, body, whole))
        if status == 0:
            message = "the API reset this connection, by script"
            raise ConnectionResetError(message)
        yield Reply(status, CIMultiDict(answered), body, whole)

    async def close(self) -> None:
        """Do nothing: there is no connection."""
