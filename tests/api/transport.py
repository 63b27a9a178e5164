"""Connects HTTP clients with an API in this process, without sockets."""

from collections.abc import AsyncIterator, MutableMapping, Sequence
from typing import Any
from urllib.parse import unquote

import httpx
from starlette.types import ASGIApp

Header = tuple[bytes, bytes]
# Status, headers and body.
Reply = tuple[int, dict[str, str], bytes]


async def call(
    app: ASGIApp,
    path: bytes,
    query: bytes,
    headers: Sequence[Header],
    *,
    body: Sequence[bytes] = (b"",),
    method: str = "GET",
) -> Reply:
    """Send a request whose body comes in these pieces; return the response."""
    incoming = [{"type": "http.request", "body": one, "more_body": True} for one in body]
    incoming[-1]["more_body"] = False
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return incoming.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": unquote(path.decode()), "raw_path": path}
    await app({**scope, "query_string": query, "headers": headers}, receive, send)
    fields = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], fields, b"".join(message.get("body", b"") for message in sent[1:])


class ApiTransport(httpx.AsyncBaseTransport):
    """Sends the requests of an HTTP client to an API in this process. What the API raises reaches the client."""

    def __init__(self, api: ASGIApp) -> None:
        self._api = api

    async def send(self, request: httpx.Request) -> Reply:
        """Return the answer of the API."""
        path, _, query = request.url.raw_path.partition(b"?")
        return await call(self._api, path, query, [(name.lower(), value) for name, value in request.headers.raw])

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the response to a request; its body may end early."""
        status, headers, body = await self.send(request)

        async def stream() -> AsyncIterator[bytes]:
            yield body
            if len(body) < int(headers.get("content-length", 0)):
                message = "peer closed connection without sending complete message body"
                raise httpx.RemoteProtocolError(message)

        return httpx.Response(status, headers=headers, content=stream())
