"""An HTTP server in a thread, which answers by a function."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def send(request: BaseHTTPRequestHandler, status: int, body: bytes = b"") -> None:
    """Answer a request with a body of JSON."""
    request.send_response(status)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


@contextmanager
def http_server(
    answer: Callable[[BaseHTTPRequestHandler], None],
    secure: Callable[[socket.socket], socket.socket] = lambda connection: connection,
) -> Iterator[str]:
    """Serve on a free port of 127.0.0.1, and yield the address; `answer` is called in a thread for each request.

    `secure` may wrap each connection; one whose handshake fails is closed.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        block_on_close = False

        def get_request(self) -> tuple[socket.socket, Any]:
            connection, address = super().get_request()
            return secure(connection), address

        def handle_error(self, *_: object) -> None:
            """Print nothing about a client that was killed: it would be in the output of a later test."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
