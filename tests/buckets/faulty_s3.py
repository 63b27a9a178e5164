"""A proxy for an S3 server that fails some requests, before or after their effect."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["error", "answer_lost", "error_after"]

OnRequest = Callable[[str, str], Fault | None]


@contextmanager
def faulty_proxy(server_url: str, on_request: OnRequest) -> Iterator[str]:
    """Forward requests to a server; yield the URL of the proxy.

    `on_request` has each request's method and path and says how it fails: `error` is a 500 that did nothing,
    `error_after` a 500 after it was done, `answer_lost` a connection that ends after it was done.
    """
    host = urlsplit(server_url).netloc
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            with lock:
                fault = on_request(self.command, self.path)
            if fault == "error":
                self._answer(500, [], b"")
                return
            onward = http.client.HTTPConnection(host)
            try:
                onward.request(self.command, self.path, body, dict(self.headers.items()))
                response = onward.getresponse()
                content = response.read()
            finally:
                onward.close()
            if fault == "answer_lost":
                self.close_connection = True
            elif fault == "error_after":
                self._answer(500, [], b"")
            else:
                self._answer(response.status, response.getheaders(), content)

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            for name, text in headers:
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(name, text)
            # The answer to a HEAD tells the size of what it leaves out.
            told = (
                {name.lower(): text for name, text in headers}.get("content-length") if self.command == "HEAD" else None
            )
            self.send_header("content-length", told or str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Do not log requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
