"""The player behind a real socket, and the faults that only a socket can show."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from itertools import repeat
from typing import Protocol

from tests.faults.answers import GIGABYTE, PIECE, TRACED, Answer, Wire, bomb
from tests.faults.faults import Ends, Fault
from tests.faults.player import Player, Scene, Serve

# What the buffers on both sides of a socket may hold, and far from what would be sent.
MOST_SENT = 16 << 20


class Act(Protocol):
    def __call__(self, wire: Wire, scene: Scene) -> Awaitable[None]: ...


def http(answer: Answer, *more: str) -> bytes:
    named = [f"{name}: {value}" for name, value in answer.headers.items()]
    length = [] if any(line.startswith(("content-length", "transfer")) for line in more) else [len(answer.body)]
    lines = [f"HTTP/1.1 {answer.status} Said", *named, *[f"content-length: {number}" for number in length], *more]
    return "\r\n".join([*lines, "", ""]).encode() + answer.body


@asynccontextmanager
async def served(player: Player) -> AsyncIterator[str]:
    """Answer as the player does, on 127.0.0.1; gives the base URL."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                path, _, query = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ")[1].partition("?")
                answer = player.answer(path, query)
                if answer.play is None:
                    writer.write(http(answer))
                    await writer.drain()
                else:
                    await answer.play(Wire(reader, writer, player))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def _act(act: Act) -> Serve:
    return lambda scene: Answer(play=partial(act, scene=scene))


def _says(message: Callable[[Scene], bytes], then: str = "stay") -> Serve:
    async def act(wire: Wire, scene: Scene) -> None:
        await wire.say(message(scene))
        await wire.end(then)

    return _act(act)


def _head(*more: str) -> bytes:
    return http(Answer(headers=TRACED), *more)


def _stream(head: bytes, pieces: Callable[[], Iterable[bytes]]) -> Serve:
    async def act(wire: Wire, scene: Scene) -> None:
        _ = scene
        await wire.say(head)
        for piece in pieces():
            await wire.say(piece)

    return _act(act)


async def _drip(wire: Wire, scene: Scene) -> None:
    await wire.say(http(scene.page())[:-20])
    while True:
        await wire.say(b" ")
        await asyncio.sleep(0.02)


def _half(scene: Scene) -> bytes:
    return http(scene.page())[:-20]


def _glued(scene: Scene) -> bytes:
    """The answer, and behind it one that nobody asked for."""
    return http(scene.page()) + http(Answer(body=b'{"items":[],"next_cursor":null}'))


def _chunked(body: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:7], body[7:])) + b"0\r\n\r\n"


def _in_chunks(scene: Scene) -> bytes:
    return _head("transfer-encoding: chunked") + _chunked(scene.page().body)


def _retried(name: str, serve: Serve, code: str, status: int | None = None, *, timed: bool = False) -> Fault:
    return Fault(name, serve, Ends.RETRY, code, status, traced=status is not None, asks=6, timed=timed)


def _landing(name: str, message: Callable[[Scene], bytes], then: str = "stay") -> Fault:
    async def act(wire: Wire, scene: Scene) -> None:
        await wire.say(message(scene))
        await wire.end(then)

    def serve(scene: Scene) -> Answer:
        return Answer(play=partial(act, scene=scene), page=scene.page().page)

    return Fault(name, serve, Ends.LAND)


_GIGABYTE = f"content-length: {GIGABYTE}"
_TWO_LENGTHS = ("content-length: 5", "content-length: 50")

SOCKET_FAULTS = (
    _retried("reset", _says(lambda _: b"", "reset"), "connection_reset"),
    _retried("closed in the head", _says(lambda _: b"HTTP/1.1 200 OK\r\nx-", "close"), "connection_reset"),
    _retried("no HTTP", _says(lambda _: b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "close"), "protocol_error"),
    _retried("silence", _says(lambda _: b"", "silence"), "timeout", timed=True),
    _retried("slow drip", _act(_drip), "timeout", 200, timed=True),
    _retried("cut body", _says(_half, "close"), "cut_body", 200),
    _retried("reset in the body", _says(_half, "reset"), "cut_body", 200),
    _retried("length too short", _says(lambda scene: http(scene.page(), "content-length: 20")), "protocol_error"),
    _retried("length no number", _says(lambda scene: http(scene.page(), "content-length: ten")), "protocol_error"),
    _retried("two lengths", _says(lambda scene: http(scene.page(), *_TWO_LENGTHS)), "protocol_error"),
    _retried("no chunks", _says(lambda _: _head("transfer-encoding: chunked") + b"zz\r\n{}\r\n"), "protocol_error"),
    _retried("cut chunks", _says(lambda scene: _in_chunks(scene)[:-9], "close"), "cut_body", 200),
    Fault("gzip bomb", _stream(_head("content-encoding: gzip", "transfer-encoding: chunked"),
          lambda: (b"%x\r\n%b\r\n" % (len(piece), piece) for piece in bomb())), Ends.SKIP,
          "body_too_large_response", 200, taken=MOST_SENT),
    Fault("1 GB", _stream(_head(_GIGABYTE), lambda: repeat(b" " * PIECE, GIGABYTE // PIECE)), Ends.SKIP,
          "body_too_large_response", 200, taken=MOST_SENT),
    _landing("chunks", _in_chunks),
    _landing("no length", lambda scene: _head("transfer-encoding: identity", "connection: close") + scene.page().body,
             "close"),
    _landing("an answer behind the answer", _glued),
)  # fmt: skip
