"""Recorded responses, and a server that sends one of them and valid pages after it."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.servers import listening

FOLDER = Path(__file__).parent / "recordings"
_ELSEWHERE = b"elsewhere.example"

GOOD_TRACE = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"
_ACCOUNT = {"ig_username": "good", "public_id": "abcdefghijkl", "status": "active"}
_ITEMS = [{"id": f"00000000-0000-4000-8000-{number:012d}", **_ACCOUNT} for number in (1, 2)]
_GOOD = json.dumps({"items": _ITEMS, "next_cursor": "good"})
GOOD_ITEMS = len(_ITEMS)


@cache
def recording(name: str) -> bytes:
    """Read a recording: the first line of the file describes it, the rest is the response."""
    return (FOLDER / f"{name}.http").read_bytes().partition(b"\n")[2]


def names() -> set[str]:
    """Return the names of all recordings."""
    return {path.stem for path in FOLDER.glob("*.http")}


def good() -> bytes:
    """Return a valid page."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Correlation-ID: {GOOD_TRACE}\r\n"
    return f"{head}Content-Length: {len(_GOOD)}\r\n\r\n{_GOOD}".encode()


async def heard() -> None:
    """Let the client read: it runs on the same event loop, so a few iterations are enough."""
    for _ in range(20):
        await asyncio.sleep(0)


@dataclass
class Server:
    """Sends `sent` as the first response and valid pages after it; `heads` are the requests received.

    `closes`: the first answer ends with its connection. `pause`: so many bytes of it arrive before the rest is said.
    """

    sent: bytes
    closes: bool = False
    pause: int | None = None
    heads: list[bytes] = field(default_factory=list)
    url: str = ""
    _quiet: asyncio.Event = field(default_factory=asyncio.Event)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                if len(self.heads) > 1:
                    writer.write(good())
                else:
                    await self._say(writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._quiet.set()
            writer.close()

    async def _say(self, writer: asyncio.StreamWriter) -> None:
        writer.write(self.sent[: self.pause])
        if self.pause is not None:
            await heard()
            writer.write(self.sent[self.pause :])
        if self.closes:
            await writer.drain()
            writer.close()
        self._quiet.set()

    async def quiet(self) -> None:
        """Wait until the first response and the data after it have been sent and read."""
        await self._quiet.wait()
        await heard()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Server"]:
        """Listen on a free port of 127.0.0.1."""
        async with listening(self._meet) as port:
            self.url = f"http://127.0.0.1:{port}"
            yield self


def head_of(sent: bytes) -> int:
    """Return the length of a response's head."""
    return sent.index(b"\r\n\r\n") + 4


def answer_of(sent: bytes) -> int:
    """Return the length of the first response, from its Content-Length."""
    stated = re.search(rb"Content-Length: ([0-9]+)", sent)
    assert stated
    return head_of(sent) + int(stated[1])


@asynccontextmanager
async def served(
    sent: bytes, *, closes: bool = False, pause: Callable[[bytes], int] | None = None
) -> AsyncIterator[tuple[Server, Server]]:
    """Serve a recording, and the other host that its head may name; `pause` is the number of bytes before a pause."""
    async with Server(good()).open() as elsewhere:
        at = head_of(sent) if b"\r\n\r\n" in sent else 0
        here = sent[:at].replace(_ELSEWHERE, elsewhere.url.removeprefix("http://").encode()) + sent[at:]
        async with Server(here, closes, pause(here) if pause else None).open() as server:
            yield server, elsewhere
