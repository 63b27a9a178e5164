"""Serve the made-up service from a process of its own, as cheaply as Python can.

    python -m benchmarks.server --accounts 400 --posts 250 [--day 0] [--style spaced] [--change urls]
                                [--latency 0.05] [--per-second 10]

Prints the port it listens on, on a line. `GET /spent` answers with what it has spent so far: requests, seconds of CPU,
requests it refused with a 429, and requests that came before the wait it had asked for was over; asking is not counted.
It speaks no more HTTP than its readers do: GET, one request after the other on a connection, no bodies.
"""

import argparse
import asyncio
import json
import time
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from benchmarks.pages import Change, Service, Style

_HEAD = (
    b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nX-Correlation-ID: 01HZZZZZZZZZZZZZZZZZZZZZZZ\r\n%b"
    b"Content-Length: %d\r\n\r\n"
)
_LIMITED = json.dumps({"error": {"code": "rate_limited", "message": "Rate limit exceeded."}}).encode()
# As Retry-After says.
_WAIT = 1.0
_REFUSED = json.dumps(
    {"error": {"code": "api_invalid_cursor", "message": "The projection cursor is invalid for this resource."}}
).encode()


@dataclass(slots=True)
class _Limit:
    """What an account asked for in a second, and until when it must wait."""

    second: int = 0
    asked: int = 0
    held_until: float = 0.0


class Bench:
    """What all connections share: the service, what was spent, and what each account may still ask for."""

    def __init__(self, service: Service, latency: float, per_second: int | None) -> None:
        self.service = service
        self.latency = latency
        self._per_second = per_second
        self._limits: dict[str, _Limit] = {}
        self._requests = 0
        self._refused = 0
        self._too_early = 0

    def answer(self, target: str) -> bytes:
        """Return the whole answer to a request for this target."""
        parts = urlsplit(target)
        if parts.path == "/spent":
            return self._spent()
        self._requests += 1
        cursor = parse_qs(parts.query).get("cursor", [None])[0]
        if parts.path == "/api/v1/accounts":
            body = self.service.catalogue(cursor)
        else:
            account = parts.path.split("/")[4]
            if self._per_second is not None and self._is_limited(account, self._per_second, time.monotonic()):
                return _HEAD % (b"429 Too Many Requests", b"Retry-After: 1\r\n", len(_LIMITED)) + _LIMITED
            body = self.service.media(int(account[:8], 16), cursor)
        if body is None:
            return _HEAD % (b"422 Unprocessable Content", b"", len(_REFUSED)) + _REFUSED
        return _HEAD % (b"200 OK", b"", len(body)) + body

    def _spent(self) -> bytes:
        spent = {
            "requests": self._requests,
            "cpu_seconds": time.process_time(),
            "refused": self._refused,
            "too_early": self._too_early,
        }
        body = json.dumps(spent).encode()
        return _HEAD % (b"200 OK", b"", len(body)) + body

    def _is_limited(self, account: str, most: int, now: float) -> bool:
        limit = self._limits.setdefault(account, _Limit())
        self._too_early += now < limit.held_until
        if limit.second != int(now):
            limit.second, limit.asked = int(now), 0
        limit.asked += 1
        if limit.asked <= most:
            return False
        self._refused += 1
        limit.held_until = now + _WAIT
        return True


class _Connection(asyncio.Protocol):
    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._arrived = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._arrived += data
        while (end := self._arrived.find(b"\r\n\r\n")) >= 0:
            head, self._arrived = self._arrived[:end], self._arrived[end + 4 :]
            answer = self._bench.answer(head.split(b" ", 2)[1].decode())
            if self._bench.latency:
                asyncio.get_running_loop().call_later(self._bench.latency, self._write, answer)
            else:
                self._write(answer)

    def _write(self, answer: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(answer)


async def serve(bench: Bench, port: int) -> None:
    """Serve on 127.0.0.1 until cancelled; port 0 is any free one."""
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(bench), "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    """Serve as the arguments say."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--accounts", type=int, default=400)
    wanted.add_argument("--posts", type=int, default=250)
    wanted.add_argument("--day", type=int, default=0)
    wanted.add_argument(
        "--style", type=Style, choices=tuple(Style), default=Style.COMPACT, help="how items are written"
    )
    wanted.add_argument("--change", type=Change, choices=tuple(Change), default=Change.NEWS, help="what a day changes")
    wanted.add_argument("--latency", type=float, default=0.0, help="seconds until an answer leaves")
    wanted.add_argument("--per-second", type=int, help="requests an account may make in a second")
    wanted.add_argument("--port", type=int, default=0)
    chosen = wanted.parse_args()
    service = Service(chosen.accounts, chosen.posts, chosen.day, chosen.style, chosen.change)
    asyncio.run(serve(Bench(service, chosen.latency, chosen.per_second), chosen.port))


if __name__ == "__main__":
    main()
