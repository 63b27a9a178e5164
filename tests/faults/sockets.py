"""The fake API on a real socket, and the faults that need one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from itertools import repeat
from typing import Protocol

from tests.faults.fake_api import FakeApi, MakeReply, PageRequest
from tests.faults.faults import Effect, Fault
from tests.faults.replies import GIGABYTE, PIECE, TRACED, Reply, ServerSocket, gzip_bomb
from tests.servers import listening

# The most bytes that may be sent: more than the socket buffers hold, far less than the whole body.
MAX_SENT = 16 << 20


class Act(Protocol):
    def __call__(self, socket: ServerSocket, request: PageRequest) -> Awaitable[None]: ...


def http(reply: Reply, *more: str) -> bytes:
    named = [f"{name}: {value}" for name, value in reply.headers.items()]
    length = [] if any(line.startswith(("content-length", "transfer")) for line in more) else [len(reply.body)]
    lines = [f"HTTP/1.1 {reply.status} Status", *named, *[f"content-length: {number}" for number in length], *more]
    return "\r\n".join([*lines, "", ""]).encode() + reply.body


@asynccontextmanager
async def served(api: FakeApi) -> AsyncIterator[str]:
    """Serve the fake API on 127.0.0.1; yield the base URL."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing():
                path, _, query = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ")[1].partition("?")
                reply = api.reply(path, query)
                if reply.play is None:
                    writer.write(http(reply))
                    await writer.drain()
                else:
                    await reply.play(ServerSocket(reader, writer, api))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with listening(meet) as port:
        yield f"http://127.0.0.1:{port}"


def _script(act: Act) -> MakeReply:
    return lambda request: Reply(play=partial(act, request=request))


def _send(message: Callable[[PageRequest], bytes], then: str = "stay") -> MakeReply:
    async def act(socket: ServerSocket, request: PageRequest) -> None:
        await socket.send(message(request))
        await socket.end(then)

    return _script(act)


def _head(*more: str) -> bytes:
    return http(Reply(headers=TRACED), *more)


def _stream(head: bytes, pieces: Callable[[], Iterable[bytes]]) -> MakeReply:
    async def act(socket: ServerSocket, request: PageRequest) -> None:
        _ = request
        await socket.send(head)
        for piece in pieces():
            await socket.send(piece)

    return _script(act)


async def _drip(socket: ServerSocket, request: PageRequest) -> None:
    await socket.send(http(request.page())[:-20])
    while True:
        await socket.send(b" ")
        await asyncio.sleep(0.02)


def _half(request: PageRequest) -> bytes:
    return http(request.page())[:-20]


def _glued(request: PageRequest) -> bytes:
    """Send a second response after the response."""
    return http(request.page()) + http(Reply(body=b'{"items":[],"next_cursor":null}'))


def _chunked(body: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:7], body[7:])) + b"0\r\n\r\n"


def _in_chunks(request: PageRequest) -> bytes:
    return _head("transfer-encoding: chunked") + _chunked(request.page().body)


def _retried(name: str, serve: MakeReply, code: str, status: int | None = None, *, timed: bool = False) -> Fault:
    return Fault(name, serve, Effect.RETRY, code, status, traced=status is not None, attempts=6, timed=timed)


def _landing(name: str, message: Callable[[PageRequest], bytes], then: str = "stay") -> Fault:
    async def act(socket: ServerSocket, request: PageRequest) -> None:
        await socket.send(message(request))
        await socket.end(then)

    def serve(request: PageRequest) -> Reply:
        return Reply(play=partial(act, request=request), page=request.page().page)

    return Fault(name, serve, Effect.LAND)


_GIGABYTE = f"content-length: {GIGABYTE}"
_CLOSE = "connection: close"
_TWO_LENGTHS = ("content-length: 5", "content-length: 50")

SOCKET_FAULTS = (
    _retried("reset", _send(lambda _: b"", "reset"), "connection_reset"),
    _retried("closed in the head", _send(lambda _: b"HTTP/1.1 200 OK\r\nx-", "close"), "connection_reset"),
    _retried("no HTTP", _send(lambda _: b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "close"), "protocol_error"),
    _retried("silence", _send(lambda _: b"", "silence"), "timeout", timed=True),
    _retried("slow drip", _script(_drip), "timeout", 200, timed=True),
    _retried("cut body", _send(_half, "close"), "cut_body", 200),
    _retried("reset in the body", _send(_half, "reset"), "cut_body", 200),
    _retried("length too short", _send(lambda request: http(request.page(), "content-length: 20")), "protocol_error"),
    _retried("length no number", _send(lambda request: http(request.page(), "content-length: ten")), "protocol_error"),
    _retried("two lengths", _send(lambda request: http(request.page(), *_TWO_LENGTHS)), "protocol_error"),
    _retried("no chunks", _send(lambda _: _head("transfer-encoding: chunked") + b"zz\r\n{}\r\n"), "protocol_error"),
    _retried("cut chunks", _send(lambda request: _in_chunks(request)[:-9], "close"), "cut_body", 200),
    Fault("gzip bomb", _stream(_head("content-encoding: gzip", "transfer-encoding: chunked"),
          lambda: (b"%x\r\n%b\r\n" % (len(piece), piece) for piece in gzip_bomb())), Effect.SKIP,
          "body_too_large_response", 200, bytes_read=MAX_SENT),
    Fault("1 GB", _stream(_head(_GIGABYTE), lambda: repeat(b" " * PIECE, GIGABYTE // PIECE)), Effect.SKIP,
          "body_too_large_response", 200, bytes_read=MAX_SENT),
    _landing("chunks", _in_chunks),
    _landing("no length", lambda request: _head("transfer-encoding: identity", _CLOSE) + request.page().body,
             "close"),
    _landing("a second response after the response", _glued),
)  # fmt: skip
