"""Serves a sandbox with uvicorn on a loopback address, in this process, blocking or in a thread."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from contextlib import contextmanager
from threading import Thread, current_thread, main_thread
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from connectors.sandbox.contract import Code
from connectors.sandbox.faults.delivery import TRANSPORT, header_fields
from connectors.sandbox.http.app import Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

_LOOPBACK = "127.0.0.1"
_PATIENCE = 10.0
_STEPS_OF_ACCEPTING = 3
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class LendingProtocol(H11Protocol):
    """HTTP/1.1 that passes its transport to the application, so that scripted faults can break the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Add the transport of a new connection to its state."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, TRANSPORT: transport}

    def send_400_response(self, msg: str) -> None:
        """Answer a request that could not be parsed with an error of the API (API 7)."""
        sandbox = self.config.app
        if not isinstance(sandbox, Sandbox):
            super().send_400_response(msg)
            return
        # h11 describes the error only in its message.
        about_length = "content-length" in str(sys.exc_info()[1]).lower()
        reply, correlation_id = sandbox.refuse_unread(
            Code.INVALID_CONTENT_LENGTH if about_length else Code.INVALID_REQUEST_URL
        )
        fields = [*header_fields(reply, correlation_id), (b"connection", b"close")]
        head = b"".join(b"%s: %s\r\n" % field for field in fields)
        self.transport.write(b"HTTP/1.1 %d Bad Request\r\n%s\r\n%s" % (reply.status, head, reply.body))
        self.transport.close()


async def finish_accepting(servers: Iterable[asyncio.Server]) -> None:
    """Stop accepting connections, except for those that are being accepted.

    Such a connection is known, and can be closed, only a few steps of the event loop later. If its server were closed
    before, asyncio would leave the socket open.
    """
    loop = asyncio.get_running_loop()
    for listener in (listener for server in servers for listener in server.sockets):
        loop.remove_reader(listener)
    for _ in range(_STEPS_OF_ACCEPTING):
        await asyncio.sleep(0)


class TidyServer(uvicorn.Server):
    """A server that returns when it is stopped by a signal, does not raise it again, and leaves no socket open."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, and close all of them."""
        await finish_accepting(self.servers)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle SIGINT and SIGTERM while the server runs, if it runs in the main thread."""
        if current_thread() is not main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, behaviour in before.items():
                signal.signal(number, behaviour)


def _server(sandbox: Sandbox) -> TidyServer:
    config = uvicorn.Config(
        sandbox,
        http=LendingProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
        backlog=2048,
    )
    return TidyServer(config)


def _listening(host: str, port: int) -> socket.socket:
    # asyncio disables Nagle's algorithm only if the protocol is given as TCP; otherwise a reply would take 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except BaseException:
        listener.close()
        raise
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"http://{host}:{port}"


def serve(
    sandbox: Sandbox,
    host: str = _LOOPBACK,
    port: int = 0,
    on_ready: Callable[[str], None] = lambda _url: None,
) -> None:
    """Serve until SIGINT or SIGTERM, then return. Port 0 selects a free one.

    ``on_ready`` is called with the base URL when the socket accepts connections. Raises OSError if the address is in
    use.
    """
    listener = _listening(host, port)
    try:
        on_ready(_url(listener))
        _server(sandbox).run(sockets=[listener])
    finally:
        listener.close()


@contextmanager
def in_thread(sandbox: Sandbox) -> Iterator[str]:
    """Serve in a thread on a free port of 127.0.0.1 until the block ends; yields the base URL."""
    listener = _listening(_LOOPBACK, 0)
    server = _server(sandbox)
    thread = Thread(target=lambda: server.run(sockets=[listener]), name="sandbox", daemon=True)
    thread.start()
    try:
        yield _url(listener)
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(_PATIENCE)
        listener.close()
