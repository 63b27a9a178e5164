"""Replies to a request."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.api.listed import CORRELATION_ID
from tests.clocks import advance_loop
from tests.faults.world import Item

TRACED = {"x-correlation-id": CORRELATION_ID, "content-type": "application/json"}
GIGABYTE = 1 << 30
PIECE = 1 << 16


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
    """A status, headers and a body, or an `error` instead. `page` is the page that must land."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: dict(TRACED))
    pieces: Callable[[], AsyncIterator[bytes]] | None = None
    error: Exception | None = None
    page: Page | None = None
    code: str | None = None


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


async def gzip_bomb_body() -> AsyncIterator[bytes]:
    """A gigabyte of zeros as gzip. After a full flush blocks are independent, so the same block is repeated."""
    packer = zlib.compressobj(9, wbits=31)
    yield packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(GIGABYTE >> 20):
        yield block


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
