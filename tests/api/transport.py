"""Connects HTTP clients with an API in this process, without sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import httpx
from starlette.types import ASGIApp

from tests.api.asked import Asked

Header = tuple[bytes, bytes]


async def call(
    app: ASGIApp,
    path: bytes,
    query: bytes,
    headers: Sequence[Header],
    *,
    body: Sequence[bytes] = (b"",),
    method: str = "GET",
) -> tuple[int, dict[str, str], bytes]:
    """Send a request whose body comes in these pieces; return the status, the headers and the body of the response."""
    incoming = [{"type": "http.request", "body": one, "more_body": True} for one in body]
    incoming[-1]["more_body"] = False
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


class _Stream(httpx.AsyncByteStream):
    def __init__(self, body: bytes, *, whole: bool) -> None:
        self._body, self._whole = body, whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body
        if not self._whole:
            message = "peer closed connection without sending complete message body"
            raise httpx.RemoteProtocolError(message)


class ApiTransport(httpx.AsyncBaseTransport):
    """Sends the requests of an HTTP client to an API in this process.

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

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request. Raises ConnectionResetError if the API resets the connection."""
        clock = asyncio.get_running_loop().time
        path, _, query = request.url.raw_path.partition(b"?")
        asked, sent_at = Asked.read(path.decode(), query), clock()
        self._sent(asked, sent_at)
        named = [(name.lower(), value) for name, value in request.headers.raw]
        try:
            await asyncio.sleep(self._latency())
            try:
                status, headers, body = await call(self._api, path, query, named)
            except ConnectionResetError:
                status, headers, body = 0, {}, b""
            await asyncio.sleep(self._latency())
        except asyncio.CancelledError:
            self._watch(Exchange(asked, sent_at, clock(), None, {}, b""))
            raise
        whole = len(body) == int(headers.get("content-length", len(body)))
        self._watch(Exchange(asked, sent_at, clock(), status, headers, body, whole))
        if status == 0:
            message = "the API reset this connection, by script"
            raise ConnectionResetError(message)
        return httpx.Response(status, headers=headers, stream=_Stream(body, whole=whole))
