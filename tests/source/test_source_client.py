import asyncio
import gzip
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr

from connectors.source.client import ApiClient, Timeouts
from connectors.source.endpoints import feed_request
from connectors.source.errors import ApiError
from connectors.source.responses import Response
from models.feeds import FEEDS
from tests.clocks import WakefulClock
from tests.servers import Meet, listening

pytestmark = pytest.mark.anyio
KEY = "canary-4f1e9b"
TRACE = "01J9ZK4TQ8M3V5X7B2C6D0FGHN"
REQUEST = feed_request(FEEDS["posts"], "an-id", None, 50)
PAGE = b'{"items":[{"id":"1"}],"next_cursor":null}'
QUICK = Timeouts(connect=0.25, read=0.1, total=0.25)


class Stage:
    """A server on a real socket that reads each request's head and then calls `play`."""

    def __init__(self, play: Meet) -> None:
        self.play = play
        self.heads: list[str] = []
        self.url = ""

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                await self.play(reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Stage"]:
        async with listening(self._meet) as port:
            self.url = f"http://127.0.0.1:{port}"
            yield self


def http(status: str = "200 OK", body: bytes = PAGE, **headers: str) -> bytes:
    named = {"content-length": str(len(body)), "x-correlation-id": TRACE}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def saying(*pieces: bytes, then: str = "stay", pause: float = 0.0) -> Meet:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        if then == "reset":
            transport = writer.transport
            assert isinstance(transport, asyncio.Transport)
            transport.abort()
        elif then == "close":
            writer.close()
        elif then == "hang":
            await reader.read()

    return play


async def send(play: Meet, within: Timeouts | None = None, *, limit: int = 10_000) -> Response:
    async with (
        Stage(play).open() as stage,
        ApiClient(stage.url, SecretStr(KEY), clock=WakefulClock(), timeout=within, max_body_bytes=limit) as client,
    ):
        return await client.send(REQUEST)


def everything_shown(error: BaseException) -> str:
    shown = "".join(traceback.format_exception(error)) + repr(error) + str(error) + repr(vars(error))
    for chained in (error.__cause__, error.__context__):
        if chained is not None:
            shown += everything_shown(chained)
    return shown


async def failing(play: Meet, within: Timeouts | None = None, *, limit: int = 10_000) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await send(play, within, limit=limit)
    error = caught.value
    assert KEY not in everything_shown(error)
    assert (error.__cause__, error.__context__) == (None, None)
    assert error.failure.message.isprintable()
    return error


async def test_a_request_has_exactly_the_required_headers() -> None:
    play = saying(http(set_cookie="session=abc; Path=/"))
    async with (
        Stage(play).open() as stage,
        ApiClient(f"{stage.url}/pre/fix/", SecretStr(KEY), clock=WakefulClock()) as client,
    ):
        await client.send(REQUEST)
        await client.send(REQUEST)
    first, second = stage.heads
    assert first == second
    line, *headers = first.strip().split("\r\n")
    assert line == "GET /pre/fix/api/v1/accounts/an-id/media?surface=posts&limit=50 HTTP/1.1"
    named = dict(header.split(": ", 1) for header in headers)
    assert named.pop("User-Agent", named.pop("user-agent", "")).startswith("gramhouse/")
    assert {name.lower(): value for name, value in named.items()} == {
        "host": stage.url.removeprefix("http://"),
        "authorization": f"Bearer {KEY}",
        "accept": "application/json",
        "accept-encoding": "gzip",
        "cache-control": "no-cache",
    }


HALF = http()[:-10]
BOMB = gzip.compress(bytes(10_000_000))
# The faults that depend on time or on the limit; tests/conformance has the others.
CLIENT_ERROR: dict[str, tuple[Meet, str, int | None]] = {
    "closed in the head": (saying(b"HTTP/1.1 200 OK\r\nx-", then="close"), "connection_reset", None),
    "silence in the body": (saying(HALF, then="hang"), "timeout", 200),
    # Each piece arrives in time and would extend a read timeout.
    "a slow drip": (saying(http()[:-40], *[b" "] * 39, pause=0.03), "timeout", 200),
    "a slow head": (saying(*[bytes([byte]) for byte in http()[:60]], pause=0.03), "timeout", None),
    "reset in the body": (saying(HALF, then="reset", pause=0.05), "cut_body", 200),
    "too large": (saying(http(body=b" " * 10_001)), "body_too_large_response", 200),
    "a gzip bomb": (saying(http(body=BOMB, content_encoding="gzip")), "body_too_large_response", 200),
    "damaged gzip": (saying(http(body=b"x" + BOMB, content_encoding="gzip")), "cut_body", 200),
}


@pytest.mark.parametrize(("play", "code", "status"), CLIENT_ERROR.values(), ids=CLIENT_ERROR)
async def test_every_network_failure_becomes_its_error(play: Meet, code: str, status: int | None) -> None:
    error = await failing(play, QUICK if code == "timeout" else None)
    assert (error.failure.code, error.failure.status) == (code, status)


async def test_a_page_that_cannot_be_read_is_kept_without_the_key() -> None:
    error = await failing(saying(http(body=f"<html>Bearer {KEY}</html>".encode(), content_type="text/html")))
    assert error.failure.body == b"<html>Bearer ***</html>"
    assert KEY not in repr(error) + repr(error.failure)


async def test_an_error_response_without_a_body_keeps_its_status() -> None:
    limited = http("429 Too Many Requests", retry_after="30")
    for error in (
        await failing(saying(limited[:-10], then="close")),
        await failing(saying(limited[:-10], then="hang"), QUICK),
        await failing(saying(http("429 Too Many Requests", retry_after="30", content_encoding="gzip"))),
        await failing(saying(limited), limit=1),
    ):
        assert (error.failure.code, error.retry_after, error.failure.correlation_id) == ("http_429", 30.0, TRACE)


async def test_connections_are_bounded_and_kept() -> None:
    open_now, most = 0, 0

    async def play(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0.01)
        open_now -= 1
        writer.write(http())

    async with (
        Stage(play).open() as stage,
        ApiClient(stage.url, SecretStr(KEY), clock=WakefulClock(), concurrency=3) as client,
    ):
        await asyncio.gather(*[client.send(REQUEST) for _ in range(12)])
    assert most == 3
