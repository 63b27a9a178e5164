"""A proxy for an S3 server that fails some requests, before or after their effect."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Literal
from urllib.parse import urlsplit

from tests.http_server import http_server

Fault = Literal["error", "answer_lost", "error_after"]
_HOP = ("connection", "transfer-encoding", "content-length")


@contextmanager
def faulty_proxy(server_url: str, on_request: Callable[[str, str], Fault | None]) -> Iterator[str]:
    """Forward requests to a server; yield the URL of the proxy.

    `on_request` has each request's method and path and says how it fails: `error` is a 500 that did nothing,
    `error_after` a 500 after it was done, `answer_lost` a connection that ends after it was done.
    """
    lock = threading.Lock()

    def answer(request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        with lock:
            fault = on_request(request.command, request.path)
        status, headers, content = 500, dict[str, str](), b""
        if fault != "error":
            onward = http.client.HTTPConnection(urlsplit(server_url).netloc)
            onward.request(request.command, request.path, body, dict(request.headers.items()))
            response = onward.getresponse()
            content = response.read()
            onward.close()
            if fault is None:
                status, headers = response.status, {name.lower(): text for name, text in response.getheaders()}
        if fault == "answer_lost":
            request.close_connection = True
            return
        request.send_response_only(status)
        for name, text in headers.items():
            if name not in _HOP:
                request.send_header(name, text)
        # The answer to a HEAD tells the size of what it leaves out.
        length = (
            headers.get("content-length", "0") if request.command == "HEAD" else len(content if status != 500 else b"")
        )
        request.send_header("content-length", str(length))
        request.end_headers()
        request.wfile.write(content if status != 500 else b"")

    with http_server(answer) as url:
        yield url
