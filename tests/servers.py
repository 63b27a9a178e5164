"""Servers of tests, in the event loop of the test."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing, suppress

from connectors.sandbox.http.serve import finish_accepting

Meet = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@asynccontextmanager
async def listening(meet: Meet, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on a free port of 127.0.0.1, and yield the port; `meet` is called for each connection.

    All accepted connections are closed at the end, also one that is still being accepted: the warning about its open
    socket would fail whatever test runs when it is collected. Raises what `meet` raises, except if the client closed
    its connection.
    """
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):
            await meet(reader, writer)

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[asyncio.get_running_loop().create_task(serve(reader, writer))] = writer

    server = await asyncio.start_server(begin, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await finish_accepting([server])
        server.close()
        for task, writer in connections.items():
            writer.close()
            task.cancel()
        for result in await asyncio.gather(*connections, return_exceptions=True):
            if isinstance(result, Exception):
                raise result


PAGE = b'{"items":[{"id":"1"}],"next_cursor":null}'
TRACE = "01J9ZK4TQ8M3V5X7B2C6D0FGHN"


class Stage:
    """A server on a real socket that reads each request's head and then calls `play`."""

    def __init__(self, play: Meet) -> None:
        self.play = play
        self.heads: list[str] = []
        self.url = ""

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await self.play(reader, writer)
            await writer.drain()

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Stage"]:
        async with listening(self._meet) as port:
            self.url = f"http://127.0.0.1:{port}"
            yield self


def http(status: str = "200 OK", body: bytes = PAGE, **headers: str) -> bytes:
    """Return a response; the names of headers have underscores for dashes."""
    named = {"content_length": str(len(body)), "x_correlation_id": TRACE} | headers
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def saying(*pieces: bytes, then: str = "stay", pause: float = 0.0) -> Meet:
    """Send these pieces for a request, each after a pause but the first, and then `reset`, `close`, `hang` or go on."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        if then == "reset":
            writer.transport.abort()
        elif then == "close":
            writer.close()
        elif then == "hang":
            await reader.read()

    return play
