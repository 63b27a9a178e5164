"""Connects the client with the API in this process, and logs every request and answer."""

import asyncio
from collections.abc import Callable
from random import Random

import httpx
from starlette.types import Receive, Scope, Send

from connectors.sandbox.http.access import RateLimiter
from tests.api.asked import Asked
from tests.api.server import Api
from tests.api.transport import ApiTransport, Exchange
from tests.harness.events import Answered, Cancelled, Event, Sent
from tests.harness.oracle.tables import CATALOGUE, Partition
from tests.harness.scenario import Day

_KEY = "key"
_REFUSED = b"<html>Too many requests</html>"


def partition_of(asked: Asked) -> Partition:
    """Return what a request asks for."""
    return CATALOGUE if asked.account_id is None else (asked.account_id, asked.surface or "")


class Transport(ApiTransport):
    """At the requests `day_changes` of a day, the API advances to its next day. A gateway limits all requests."""

    def __init__(self, api: Api, random: Random, log: list[Event], day: Day, clock: Callable[[], float]) -> None:
        super().__init__(self._pass, latency=lambda: random.random() * day.latency, watch=self._answered)
        self._gateway = RateLimiter({_KEY: day.key_limit}, clock)
        self._real = api
        self._day = day
        self._log = log
        self._sent = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the API's answer. Raises ConnectionResetError if it resets the connection."""
        path, _, query = request.url.raw_path.partition(b"?")
        asked = Asked.read(path.decode(), query)
        self._sent += 1
        self._real.day += self._day.day_changes.count(self._sent)
        self._log.append(Sent(asyncio.get_running_loop().time(), partition_of(asked), asked.cursor))
        return await super().handle_async_request(request)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (wait := self._gateway.admit(_KEY, "", 0)) is None:
            await self._real(scope, receive, send)
            return
        headers = [(b"retry-after", b"%d" % wait)] if self._day.key_status == 503 else []
        await send({"type": "http.response.start", "status": self._day.key_status, "headers": headers})
        await send({"type": "http.response.body", "body": _REFUSED})

    def _answered(self, got: Exchange) -> None:
        partition, cursor = partition_of(got.asked), got.asked.cursor
        if got.status is None:
            self._log.append(Cancelled(got.received_at, partition))
            return
        self._log.append(Answered(got.received_at, partition, cursor, got.status, got.headers, got.body, got.whole))
