"""An API server that fails in every way and echoes the key in its responses."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import count
from urllib.parse import parse_qs, urlsplit

from tests.api.listed import uuid
from tests.http_server import http_server

_ANSWERS = count()

# The fault of each account's media, by its number.
WAYS = (
    "forbidden", "missing", "later", "busy", "invalid", "html", "redirect", "cut", "malformed", "long cursor",
    "odd cursor", "reason", "headers", "no http", "empty",
)  # fmt: skip


def _error(code: str, message: str, **more: object) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, **more}}, ensure_ascii=False).encode()


def _page(items: object, cursor: object = None) -> bytes:
    return json.dumps({"items": items, "next_cursor": cursor}, ensure_ascii=False).encode()


def _account(number: int) -> dict[str, str]:
    return {"id": uuid(number), "ig_username": f"user_{number}", "public_id": f"p{number:012d}", "status": "active"}


@dataclass
class Service:
    """The URL of the server, and how often each fault occurred."""

    url: str = ""
    done: Counter[str] = field(default_factory=Counter)


@dataclass
class _Answer:
    service: Service
    request: BaseHTTPRequestHandler

    def _say(self, status: int, body: bytes, *, length: int | None = None, reason: str = "X", **more: str) -> None:
        key = self.request.headers["Authorization"]
        self.request.send_response(status, reason)
        named = {
            "X-Correlation-ID": f"{next(_ANSWERS):026d}",
            "X-Echo": key,
            "Set-Cookie": f"key={key}",
            "ETag": f'"{key}"',
        }
        named |= {name.replace("_", "-"): value for name, value in more.items()}
        for name, value in named.items():
            self.request.send_header(name, value)
        self.request.send_header("Content-Length", str(len(body) if length is None else length))
        self.request.end_headers()
        self.request.wfile.write(body)

    def choose(self) -> None:
        key = self.request.headers["Authorization"]
        asked = urlsplit(self.request.path)
        mode = key.rpartition("-")[2]
        if mode == "401":
            self._go_wrong("key", key)
        elif asked.path == "/api/v1/accounts":
            self._accounts(mode, key, parse_qs(asked.query))
        elif mode == "403":
            self._go_wrong("scope", key)
        elif mode == "data":
            self.service.done["data"] += 1
            self._say(200, _page([{"id": "1", "caption": f"my key is {key}", f"field {key}": 1}]))
        else:
            self._go_wrong(WAYS[int(asked.path.split("/")[4][-12:]) % len(WAYS)], key)

    def _accounts(self, mode: str, key: str, query: dict[str, list[str]]) -> None:
        if mode == "500":
            self._go_wrong("later", key)
        elif mode == "data" and "cursor" not in query:
            odd = {**_account(0), "status": key}
            self._say(200, _page([_account(1), odd], f"after {key}"))
        elif mode == "data":
            self._say(200, _page([_account(2)]))
        else:
            self._say(200, _page([_account(number) for number in range(len(WAYS))]), Content_Type="application/json")

    def _go_wrong(self, way: str, key: str) -> None:
        self.service.done[way] += 1
        encoded = f"{base64.b64encode(key.encode()).decode()} {key.encode().hex()}"
        echo = f"you sent Authorization: {key} ({encoded}) to {self.request.path}"
        issue = {"issues": [{"code": key, "path": [1]}]}
        match way:
            case "key":
                self._say(401, _error("api_unauthorized", echo, correlation_id=key), WWW_Authenticate=key)
            case "scope":
                self._say(403, _error("api_scope_denied", echo))
            case "forbidden":
                self._say(403, _error("api_forbidden", echo))
            case "missing":
                self._say(404, _error(key, echo))
            case "later":
                self._say(500, _error("api_internal_error", echo), Retry_After="7200")
            case "busy":
                self._say(429, _error("rate_limited", echo), Retry_After="7200")
            case "invalid":
                self._say(422, _error("api_validation_error", echo, details=issue))
            case "html":
                self._say(418, f"<script>'{key}'</script>".encode(), Content_Type=f"text/html; key={key}")
            case "redirect":
                self._say(307, b"", Location=f"{self.service.url}/stolen?key={key}")
            case _:
                self._spoil(way, key, echo)

    def _spoil(self, way: str, key: str, echo: str) -> None:
        match way:
            case "reason":
                self._say(410, echo.encode(), reason=echo)
            case "no http":
                self.request.wfile.write(f"HTTP/1.1 200 OK\r\nBad Header {key}: {key}\r\n\r\n".encode())
            case "cut":
                self._say(200, _page([{"id": "1", "caption": echo}]), length=9999)
            case "malformed":
                self._say(200, f'{{"items": [{{"{key}": {echo}'.encode())
            case "long cursor":
                self._say(200, _page([], key * 99))
            case "odd cursor":
                self._say(200, _page([], {key: [key]}))
            case "headers":
                self._say(403, _error("api_forbidden", echo), X_Correlation_ID=key, Date=key, Retry_After=key)
            case _:
                self._say(204, b"")


@contextmanager
def echoing() -> Iterator[Service]:
    """Serve on a free local port, in a thread."""
    service = Service()
    with http_server(lambda request: _Answer(service, request).choose()) as service.url:
        yield service
