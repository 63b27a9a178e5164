"""Replies to a request, in this process or over a socket."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from tests.clocks import advance_loop
from tests.faults.world import Item
from tests.flows.fake_api import CORRELATION_ID

TRACED = {"x-correlation-id": CORRELATION_ID, "content-type": "application/json"}
GIGABYTE = 1 << 30
PIECE = 1 << 16


class ServerSocket:
    """The server's end of a connection, which can send any bytes; `counter` counts them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bytes_read: "ByteCounter") -> None:
        self._reader = reader
        self._writer = writer
        self._counter = bytes_read
        self._message = 0

    async def send(self, piece: bytes) -> None:
        self._writer.write(piece)
        await self._writer.drain()
        self._message += len(piece)
        self._counter.bytes_read = max(self._counter.bytes_read, self._message)

    async def end(self, how: str) -> None:
        """Reset or close the connection, send nothing until the client closes it ("silence"), or keep it open."""
        transport = self._writer.transport
        assert isinstance(transport, asyncio.Transport)
        if how == "reset":
            transport.abort()
        elif how == "close":
            self._writer.close()
        elif how == "silence":
            await self._reader.read()


class ByteCounter(Protocol):
    bytes_read: int


Play = Callable[[ServerSocket], Awaitable[None]]


@dataclass(frozen=True)
class Page:
    """The page that a client must land. An item that is not JSON is its text in quarantine.

    Without a cursor, and unless it `is_last`, the scan fails.
    """

    items: Sequence[Any]
    next_cursor: str | None
    is_last: bool = True


@dataclass(frozen=True)
class Reply:
    """A status, headers and a body, or an `error` instead. `page` is the page that must land.

    `play` sends the reply over a socket instead.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: dict(TRACED))
    pieces: Callable[[], AsyncIterator[bytes]] | None = None
    error: Exception | None = None
    page: Page | None = None
    code: str | None = None
    play: Play | None = None


class Pieces(httpx.AsyncByteStream):
    """A body in pieces that counts the bytes read from it."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self.bytes_read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            self.bytes_read += len(piece)
            yield piece


def rendered(items: Sequence[Item], next_cursor: object) -> bytes:
    return json.dumps({"items": items, "next_cursor": next_cursor}, ensure_ascii=False).encode()


async def gigabyte_body() -> AsyncIterator[bytes]:
    for _ in range(GIGABYTE // PIECE):
        yield b" " * PIECE


def gzip_bomb() -> Iterator[bytes]:
    """A gigabyte of zeros as gzip. After a full flush blocks are independent, so the same block is repeated."""
    packer = zlib.compressobj(9, wbits=31)
    yield packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(GIGABYTE >> 20):
        yield block


async def gzip_bomb_body() -> AsyncIterator[bytes]:
    for piece in gzip_bomb():
        yield piece


async def slow_body() -> AsyncIterator[bytes]:
    """A byte every ten seconds, so that the read timeout never expires."""
    while True:
        advance_loop(10.0)
        await asyncio.sleep(0)
        yield b" "


async def silent_body() -> AsyncIterator[bytes]:
    advance_loop(1000.0)
    await asyncio.Event().wait()
    yield b""
