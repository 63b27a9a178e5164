"""Serves the synthetic API from a separate process, with as little CPU time per request as possible.

    python -m benchmarks.api.server --accounts 400 --posts 250 [--day 0] [--style spaced] [--change urls]
                                [--latency 0.05] [--per-second 10] [--key-per-second 60] [--key-status 503]

Prints the port it listens on. `GET /usage` returns its counters: requests, CPU seconds, requests refused because of
a limit, requests that came before their Retry-After was over, and the seconds from the first to the last request since
it was asked before; it does not count itself. Only the HTTP that the candidates use is implemented: GET without a body,
and no pipelining.
"""

import argparse
import asyncio
import json
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


@dataclass(slots=True)
class _Limit:
    """The requests of an account in the current second, and the end of its Retry-After."""

    second: int = 0
    requests: int = 0
    blocked_until: float = 0.0


class BenchServer:
    """State shared by all connections: the API, the counters, and the rate limits."""

    def __init__(
        self,
        api: SyntheticApi,
        latency: float,
        per_second: int | None,
        key_per_second: float | None = None,
        key_status: int = 429,
    ) -> None:
        self._bucket = None if key_per_second is None else _Bucket(key_per_second)
        self._refusal = _REFUSALS[key_status]
        self._api = api
        self.latency = latency
        self._per_second = per_second
        self._limits: dict[str, _Limit] = {}
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
        limit = self._limits.setdefault(account, _Limit())
        self._too_early += now < limit.blocked_until
        if limit.second != int(now):
            limit.second, limit.requests = int(now), 0
        limit.requests += 1
        if limit.requests <= maximum:
            return False
        self._refused += 1
        limit.blocked_until = now + _RETRY_AFTER
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


async def serve(server: BenchServer, port: int) -> None:
    """Serve on 127.0.0.1 until cancelled; port 0 means any free port."""
    listener = await asyncio.get_running_loop().create_server(lambda: _Connection(server), "127.0.0.1", port)
    print(listener.sockets[0].getsockname()[1], flush=True)
    async with listener:
        await listener.serve_forever()


def main() -> None:
    """Parse the arguments and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accounts", type=int, default=400)
    parser.add_argument("--posts", type=int, default=250)
    parser.add_argument("--day", type=int, default=0)
    parser.add_argument("--style", type=Style, choices=tuple(Style), default=Style.COMPACT, help="format of the items")
    parser.add_argument(
        "--change",
        type=Change,
        choices=tuple(Change),
        default=Change.DAILY,
        help="what changes from one day to the next",
    )
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each response")
    parser.add_argument("--per-second", type=int, help="requests per second allowed for each account")
    parser.add_argument("--key-per-second", type=float, help=f"requests per second of the key, {BURST} at once")
    parser.add_argument("--key-status", type=int, choices=tuple(_REFUSALS), default=429, help="status beyond them")
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    api = SyntheticApi(args.accounts, args.posts, args.day, args.style, args.change)
    asyncio.run(serve(BenchServer(api, args.latency, args.per_second, args.key_per_second, args.key_status), args.port))


if __name__ == "__main__":
    main()
