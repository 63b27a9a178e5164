"""Recorded responses, and a server that sends one of them and valid pages after it."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from tests.servers import Meet, Stage

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


async def heard(iterations: int = 20) -> None:
    """Let the client read: it runs on the same event loop, so a few iterations are enough."""
    for _ in range(iterations):
        await asyncio.sleep(0)


def recorded(sent: bytes, *, closes: bool, pause: int | None) -> Meet:
    """Send a recording for the first request, after `pause` bytes and a pause the rest, and valid pages after it."""
    answers = iter([sent])

    async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (answer := next(answers, None)) is None:
            writer.write(good())
            return
        writer.write(answer[:pause])
        if pause is not None:
            await heard()
            writer.write(answer[pause:])
        if closes:
            await writer.drain()
            writer.close()

    return play


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
) -> AsyncIterator[tuple[Stage, Stage]]:
    """Serve a recording, and the other host that its head may name; `pause` is the number of bytes before a pause."""
    async with Stage(recorded(good(), closes=False, pause=None)).open() as elsewhere:
        at = head_of(sent) if b"\r\n\r\n" in sent else 0
        here = sent[:at].replace(_ELSEWHERE, elsewhere.url.removeprefix("http://").encode()) + sent[at:]
        async with Stage(recorded(here, closes=closes, pause=pause(here) if pause else None)).open() as server:
            yield server, elsewhere
