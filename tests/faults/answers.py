"""What may come back for a request, in this process or on a socket."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from tests.clocks import leap
from tests.faults.world import Item
from tests.flows.fake_api import CORRELATION_ID

TRACED = {"x-correlation-id": CORRELATION_ID, "content-type": "application/json"}
GIGABYTE = 1 << 30
PIECE = 1 << 16


class Wire:
    """One end of a socket, on which anything may be said; `taken` tells how much the other end took."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, taken: "Taken") -> None:
        self._reader = reader
        self._writer = writer
        self._taken = taken
        self._message = 0

    async def say(self, piece: bytes) -> None:
        self._writer.write(piece)
        await self._writer.drain()
        self._message += len(piece)
        self._taken.taken = max(self._taken.taken, self._message)

    async def end(self, how: str) -> None:
        """Reset the connection, close it, fall silent until the other end hangs up, or stay for more."""
        transport = self._writer.transport
        assert isinstance(transport, asyncio.Transport)
        if how == "reset":
            transport.abort()
        elif how == "close":
            self._writer.close()
        elif how == "silence":
            await self._reader.read()


class Taken(Protocol):
    taken: int


Play = Callable[[Wire], Awaitable[None]]


@dataclass(frozen=True)
class Page:
    """What a reader without a fault would land."""

    items: Sequence[Any]
    next_cursor: str | None


@dataclass(frozen=True)
class Answer:
    """A status, headers and a body, or `error` instead of them. `page` is what should land of it.

    `play` is what a socket is told instead.
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
    """A body in pieces, which counts the bytes that were taken of it."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self.taken = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            self.taken += len(piece)
            yield piece


def rendered(items: Sequence[Item], next_cursor: object) -> bytes:
    return json.dumps({"items": items, "next_cursor": next_cursor}, ensure_ascii=False).encode()


async def gigabyte() -> AsyncIterator[bytes]:
    for _ in range(GIGABYTE // PIECE):
        yield b" " * PIECE


def bomb() -> Iterator[bytes]:
    """A gigabyte of zeros as gzip. After a full flush nothing before counts, so one block serves for all."""
    packer = zlib.compressobj(9, wbits=31)
    yield packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(GIGABYTE >> 20):
        yield block


async def bombed() -> AsyncIterator[bytes]:
    for piece in bomb():
        yield piece


async def dripping() -> AsyncIterator[bytes]:
    """A byte every ten seconds: no silence is long enough to be one."""
    while True:
        leap(10.0)
        await asyncio.sleep(0)
        yield b" "


async def silent() -> AsyncIterator[bytes]:
    leap(1000.0)
    await asyncio.Event().wait()
    yield b""
