"""An HTTP transport that calls the sandbox's ASGI application without sockets and logs every request and response."""

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random
from urllib.parse import parse_qs, unquote

import aiohttp
import httpx

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.limits import RateLimiter
from tests.api.transport import call
from tests.simulation.events import CATALOGUE, Event, Partition, RequestCancelled, RequestSent, ResponseReceived
from tests.simulation.scenario import Day

_KEY = "key"


class _Stream(httpx.AsyncByteStream):
    def __init__(self, body: bytes, *, whole: bool) -> None:
        self._body = body
        self._whole = whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body
        if not self._whole:
            message = "the body ended early"
            raise aiohttp.ClientPayloadError(message)


def asked(request: httpx.Request) -> tuple[Partition, str | None]:
    """Return the partition and the cursor of a request."""
    path, _, query = request.url.raw_path.decode().partition("?")
    text = {name: values[0] for name, values in parse_qs(query).items()}
    parts = path.split("/")
    partition = CATALOGUE if len(parts) == 4 else (unquote(parts[4]), text.get("surface", ""))
    return partition, text.get("cursor")


class SimulatedTransport(httpx.AsyncBaseTransport):
    """Connects a client to the sandbox with random latency in both directions.

    At the requests `day_changes`, the sandbox advances to the next day. A gateway limits all requests of a `day`.
    """

    def __init__(
        self, sandbox: Sandbox, random: Random, log: list[Event], day: Day, clock: Callable[[], float]
    ) -> None:
        self._gateway = RateLimiter({_KEY: day.key_limit}, clock)
        self._gateway_status = day.key_status
        self._sandbox = sandbox
        self._random = random
        self._slowest = day.latency
        self._turns = day.day_changes
        self._log = log
        self._sent = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        clock = asyncio.get_running_loop().time
        partition, cursor = asked(request)
        self._sent += 1
        self._sandbox.day += self._turns.count(self._sent)
        self._log.append(RequestSent(clock(), partition, cursor))
        try:
            await asyncio.sleep(self._random.random() * self._slowest)
            status, headers, body, whole = await self._ask(request)
            await asyncio.sleep(self._random.random() * self._slowest)
        except asyncio.CancelledError:
            self._log.append(RequestCancelled(clock(), partition))
            raise
        self._log.append(ResponseReceived(clock(), partition, cursor, status, headers, body, whole))
        if status == 0:
            message = "the sandbox reset this connection, by script"
            raise ConnectionResetError(message)
        return httpx.Response(status, headers=headers, stream=_Stream(body, whole=whole))

    async def _ask(self, request: httpx.Request) -> tuple[int, dict[str, str], bytes, bool]:
        if (wait := self._gateway.admit(_KEY, "", 0)) is not None:
            until = {"retry-after": str(wait)} if self._gateway_status == 503 else {}
            return self._gateway_status, until, b"<html>Too many requests</html>", True
        path, _, query = request.url.raw_path.partition(b"?")
        named = [(name.lower(), value) for name, value in request.headers.raw]
        try:
            status, headers, body = await call(self._sandbox, path, query, named)
        except ConnectionResetError:
            return 0, {}, b"", False
        return status, headers, body, len(body) == int(headers.get("content-length", len(body)))
