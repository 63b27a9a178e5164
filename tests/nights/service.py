"""The sandbox with answers that a test writes, and what lies between it and us: gateways, caches, resets."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

from connectors.sandbox.http.replies import PageRequest, Reply
from connectors.sandbox.settings import SandboxSettings
from tests.api.server import Api, OddReply

Page = dict[str, Any]
# The reply to a request, its page as JSON text, a changed page, or None for the page as it is.
Answer = Reply | bytes | Page | None
ONE = "00000000-0000-4000-8000-000000000001"
_ANSWERS = count()
HTML = b"<html><head><title>Gateway</title></head><body>Access denied by policy.</body></html>"


def gateway(status: int, *headers: tuple[bytes, bytes]) -> Reply:
    """Return the answer of a gateway: without the service's envelope and X-Correlation-ID."""
    return OddReply(status, HTML, [(b"content-type", b"text/html"), *headers], correlated=False)


def failure(status: int, code: str, *headers: tuple[bytes, bytes]) -> Reply:
    return Reply(status, json.dumps({"error": {"code": code, "message": "No."}}).encode(), headers)


class Service(Api):
    """An API whose `respond` a test sets; `asked` are the valid requests."""

    def __init__(self, accounts: int = 2, posts: int = 12, stories: int = 0, first_day: int = 0) -> None:
        super().__init__(
            SandboxSettings(accounts=accounts, posts=posts, stories=stories, first_day=first_day, change_every=0)
        )
        self.respond: Callable[[PageRequest, Page], Answer] = lambda _request, _page: None
        self.asked: list[PageRequest] = []

    async def answer(self, request: PageRequest) -> Reply:
        self.asked.append(request)
        body = self.page(request)
        found = self.respond(request, json.loads(body))
        if found is None:
            return await super().answer(request)
        if isinstance(found, Reply):
            return found
        return Reply(200, json.dumps(found).encode() if isinstance(found, dict) else found)

    def names(self) -> list[str]:
        return [account.ig_username for account in self.catalogue.accounts(0)]

    def post_ids(self, position: int) -> list[str]:
        """Return the ids of the posts of the account at this position."""
        account = list(self.catalogue.accounts(0))[position]
        return [json.loads(text)["id"] for _, text in self.catalogue.items(account, "posts", 0)]


def is_media(request: PageRequest, position: int | None = None, surface: str = "posts") -> bool:
    """Return whether it asks for posts, or stories, of the account at this position, or of any."""
    return (
        request.account is not None
        and request.resource.surface == surface
        and position in (None, request.resource.position)
    )


def items_of(page: Page, change: Callable[[Page], Page]) -> Page:
    return {**page, "items": [change(item) for item in page["items"]]}


@contextmanager
def raw_server(meet: Callable[[socket.socket, int], None]) -> Iterator[int]:
    """Call `meet` in a thread with each connection and its number, from 0; yield the port on 127.0.0.1."""
    numbers = count()

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(60)
            with suppress(OSError):
                meet(self.request, next(numbers))

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.05,)).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def answer_one(connection: socket.socket) -> None:
    """Answer a request, if one comes: one account, without media."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        if not (received := connection.recv(65_536)):
            return
        head += received
    account = {"id": ONE, "ig_username": "anna", "public_id": "p00000000001", "status": "active"}
    page: Page = {"items": [] if b"/media?" in head else [account], "next_cursor": None}
    body = json.dumps(page).encode()
    fields = b"content-type: application/json\r\nx-correlation-id: %026d\r\n" % next(_ANSWERS)
    connection.sendall(b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n%s" % (fields, len(body), body))
