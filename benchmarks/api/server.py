"""Serves the synthetic API from a separate process, with as little CPU time per request as possible.

    python -m benchmarks.api.server '{"accounts": 400, "posts": 250}'

The argument has fields of `ServerOptions`. Prints the port it listens on. `GET /usage` returns its counters: requests,
CPU seconds, requests refused because of a limit, requests that came before their Retry-After was over, and the seconds
from the first to the last request since it was asked before; it does not count itself. Only the HTTP that the
candidates use is implemented: GET without a body, and no pipelining.
"""

import asyncio
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from urllib.parse import parse_qs, urlsplit

from benchmarks.api.synthetic_api import Change, Style, SyntheticApi

_HEAD = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nX-Correlation-ID: %026d\r\n%bContent-Length: %d\r\n\r\n"
# Only a cache would repeat a correlation id.
_ANSWERS = count()
_RATE_LIMITED = json.dumps({"error": {"code": "rate_limited", "message": "Rate limit exceeded."}}).encode()
# The same as in the Retry-After header.
_RETRY_AFTER = 1.0
_INVALID_CURSOR = json.dumps(
    {"error": {"code": "api_invalid_cursor", "message": "The projection cursor is invalid for this resource."}}
).encode()


# The requests that a gateway in front of the service allows the key at once.
BURST = 10
# As nginx refuses, but with a Retry-After for 503.
_REFUSALS: Mapping[int, tuple[bytes, bytes, bytes]] = {
    429: (b"429 Too Many Requests", b"", b"<html><title>429 Too Many Requests</title></html>"),
    503: (b"503 Service Unavailable", b"Retry-After: 2\r\n", b"<html><title>503 Service Unavailable</title></html>"),
}


@dataclass(slots=True)
class _Bucket:
    """A token bucket for all requests of the key."""

    per_second: float
    tokens: float = BURST
    at: float = 0.0

    def takes(self, now: float) -> bool:
        self.tokens, self.at = min(BURST, self.tokens + (now - self.at) * self.per_second), now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What is served, `latency` seconds after each request, and with which limits.

    `per_second` are the requests of an account, `key_per_second` those of the key, beyond which the status is
    `key_status`.
    """

    accounts: int = 400
    posts: int = 250
    day: int = 0
    style: Style = Style.COMPACT
    change: Change = Change.DAILY
    latency: float = 0.0
    per_second: int | None = None
    key_per_second: float | None = None
    key_status: int = 429


class BenchServer:
    """State shared by all connections: the API, the counters, and the rate limits."""

    def __init__(self, options: ServerOptions) -> None:
        self._bucket = None if options.key_per_second is None else _Bucket(options.key_per_second)
        self._refusal = _REFUSALS[options.key_status]
        self._api = SyntheticApi(options.accounts, options.posts, options.day, options.style, options.change)
        self.latency = options.latency
        self._per_second = options.per_second
        # Of each account: the current second with its requests, and the end of the Retry-After.
        self._seconds: dict[str, tuple[int, int]] = {}
        self._until: dict[str, float] = {}
        self._requests = 0
        self._refused = 0
        self._too_early = 0
        self._sent: list[float] = []

    def respond(self, target: str) -> bytes:
        """Return the response to a request for this target, headers included."""
        parts = urlsplit(target)
        if parts.path == "/usage":
            return self._usage()
        self._requests += 1
        self._sent[1:] = [time.monotonic()]
        if self._bucket is not None and not self._bucket.takes(time.monotonic()):
            self._refused += 1
            status, headers, page = self._refusal
            return _HEAD % (status, next(_ANSWERS), headers, len(page)) + page
        cursor = parse_qs(parts.query).get("cursor", [None])[0]
        if parts.path == "/api/v1/accounts":
            body = self._api.catalogue(cursor)
        else:
            account = parts.path.split("/")[4]
            if self._per_second is not None and self._is_limited(account, self._per_second, time.monotonic()):
                return (
                    _HEAD % (b"429 Too Many Requests", next(_ANSWERS), b"Retry-After: 1\r\n", len(_RATE_LIMITED))
                    + _RATE_LIMITED
                )
            body = self._api.media(int(account[:8], 16), cursor)
        if body is None:
            return _HEAD % (b"422 Unprocessable Content", next(_ANSWERS), b"", len(_INVALID_CURSOR)) + _INVALID_CURSOR
        return _HEAD % (b"200 OK", next(_ANSWERS), b"", len(body)) + body

    def _usage(self) -> bytes:
        usage = {
            "requests": self._requests,
            "cpu_seconds": time.process_time(),
            "refused": self._refused,
            "too_early": self._too_early,
            "requesting": self._sent[-1] - self._sent[0] if self._sent else 0.0,
        }
        self._sent.clear()
        body = json.dumps(usage).encode()
        return _HEAD % (b"200 OK", next(_ANSWERS), b"", len(body)) + body

    def _is_limited(self, account: str, maximum: int, now: float) -> bool:
        self._too_early += now < self._until.get(account, 0.0)
        second, requests = self._seconds.get(account, (0, 0))
        self._seconds[account] = int(now), requests + 1 if second == int(now) else 1
        if self._seconds[account][1] <= maximum:
            return False
        self._refused += 1
        self._until[account] = now + _RETRY_AFTER
        return True


class _Connection(asyncio.Protocol):
    def __init__(self, server: BenchServer) -> None:
        self._server = server
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head, self._received = self._received[:end], self._received[end + 4 :]
            response = self._server.respond(head.split(b" ", 2)[1].decode())
            if self._server.latency:
                asyncio.get_running_loop().call_later(self._server.latency, self._write, response)
            else:
                self._write(response)

    def _write(self, response: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(response)


async def serve(server: BenchServer) -> None:
    """Serve on a free port of 127.0.0.1, which is printed, until cancelled."""
    listener = await asyncio.get_running_loop().create_server(lambda: _Connection(server), "127.0.0.1", 0)
    print(listener.sockets[0].getsockname()[1], flush=True)
    async with listener:
        await listener.serve_forever()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given |= {"style": Style(given.get("style", "compact")), "change": Change(given.get("change", "daily"))}
    asyncio.run(serve(BenchServer(ServerOptions(**given))))
