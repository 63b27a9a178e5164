"""Serves a sandbox with uvicorn on a loopback address, in this process, blocking or in a thread."""

import asyncio
import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Thread
from typing import Any

import uvicorn

from connectors.sandbox.http.app import Sandbox


async def finish_accepting(servers: Iterable[asyncio.Server]) -> None:
    """Stop accepting connections, except for those that are being accepted.

    Such a connection is known, and can be closed, only a few steps of the event loop later. If its server were closed
    before, asyncio would leave the socket open.
    """
    for listener in (listener for server in servers for listener in server.sockets):
        asyncio.get_running_loop().remove_reader(listener)
    for _ in range(3):
        await asyncio.sleep(0)


class TidyServer(uvicorn.Server):
    """A server that leaves no socket open, and handles no signals by itself: it would raise them again at its end."""

    capture_signals = nullcontext  # type: ignore[assignment]

    def __init__(self, sandbox: Sandbox) -> None:
        # A client keeps its connections for less than 75 seconds.
        quiet: dict[str, Any] = {"log_config": None, "log_level": "critical", "ws": "none", "lifespan": "off"}
        super().__init__(uvicorn.Config(sandbox, timeout_keep_alive=75, timeout_graceful_shutdown=1, **quiet))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and close all of them."""
        await finish_accepting(self.servers)
        await super().shutdown(sockets)


@contextmanager
def listening(port: int) -> Iterator[tuple[socket.socket, str]]:
    """Yield a socket that accepts connections on 127.0.0.1, and its base URL; port 0 selects a free one.

    Raises OSError if the port cannot be used, for example because another process listens on it.
    """
    # asyncio disables Nagle's algorithm only if the protocol is given as TCP; otherwise a reply would take 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(2048)
        yield listener, "http://{}:{}".format(*listener.getsockname())


def serve(sandbox: Sandbox, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, then return."""
    server = TidyServer(sandbox)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, server.handle_exit)
    server.run(sockets=[listener])


@contextmanager
def in_thread(sandbox: Sandbox) -> Iterator[str]:
    """Serve in a thread on a free port of 127.0.0.1 until the block ends; yields the base URL."""
    with listening(0) as (listener, url):
        server = TidyServer(sandbox)
        thread = Thread(target=lambda: server.run(sockets=[listener]), name="sandbox", daemon=True)
        thread.start()
        try:
            yield url
        finally:
            server.should_exit = server.force_exit = True
            thread.join(10.0)
