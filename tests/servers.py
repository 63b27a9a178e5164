"""Servers of tests, in the event loop of the test."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

from connectors.sandbox.http.serve import finish_accepting

Meet = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@asynccontextmanager
async def listening(meet: Meet, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on a free port of 127.0.0.1, and yield the port; `meet` is called for each connection.

    All accepted connections are closed at the end, also one that is still being accepted: the warning about its open
    socket would fail whatever test runs when it is collected. Raises what `meet` raises, except if the client closed
    its connection.
    """
    writers: list[asyncio.StreamWriter] = []
    tasks: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await meet(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        tasks.append(asyncio.get_running_loop().create_task(serve(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await finish_accepting([server])
        server.close()
        for writer in writers:
            writer.close()
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
