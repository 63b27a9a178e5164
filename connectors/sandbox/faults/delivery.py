"""Sends replies over ASGI; for broken connections, it uses the underlying transport."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from connectors.sandbox.http.exchange import Headers, Reply

    Message = MutableMapping[str, Any]
    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

# The key in ASGI's ``state`` under which ``serve`` passes the connection's transport.
TRANSPORT = "sandbox.transport"
_SPACES = b" " * 65_536


async def deliver(reply: Reply, correlation_id: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a reply.

    With ``serve``, a reset is a TCP reset, and a cut closes the connection. In process, without a connection, a reset
    raises ConnectionResetError, and after a cut the body is shorter than its Content-Length.
    """
    if reply.ending == "reset":
        await _reset(scope, receive)
        return
    headers = header_fields(reply, correlation_id)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    transport = _transport(scope)
    if reply.ending == "cut" and transport is not None:
        await send({"type": "http.response.body", "body": reply.body, "more_body": True})
        transport.close()
        await _gone(receive)
        return
    left = reply.padding
    await send({"type": "http.response.body", "body": reply.body, "more_body": left > 0})
    while left > 0:
        chunk = _SPACES[:left]
        left -= len(chunk)
        await send({"type": "http.response.body", "body": chunk, "more_body": left > 0})


def header_fields(reply: Reply, correlation_id: str) -> Headers:
    """Return a reply's headers with Content-Length and, unless the reply is a proxy's, X-Correlation-ID (API 1)."""
    length = len(reply.body) + reply.padding if reply.promised is None else reply.promised
    headers = [*reply.headers, (b"content-length", b"%d" % length)]
    if reply.correlated:
        headers.append((b"x-correlation-id", correlation_id.encode()))
    return headers


def _transport(scope: Scope) -> asyncio.Transport | None:
    transport = scope.get("state", {}).get(TRANSPORT)
    return transport if isinstance(transport, asyncio.Transport) else None


async def _reset(scope: Scope, receive: Receive) -> None:
    transport = _transport(scope)
    if transport is None:
        message = "the sandbox reset this connection, by script"
        raise ConnectionResetError(message)
    connection = transport.get_extra_info("socket")
    # With a linger time of 0 seconds, closing the socket sends a reset.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
    await _gone(receive)


async def _gone(receive: Receive) -> None:
    # Wait until the server has noticed the closed connection; otherwise it would send its own response.
    while (await receive())["type"] != "http.disconnect":
        pass
