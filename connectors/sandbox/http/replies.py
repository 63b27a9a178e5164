"""Valid requests for a page, replies, and errors."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from starlette.types import Receive, Send

from connectors.sandbox.contract import ACCOUNTS, MEDIA, Error
from connectors.sandbox.data.catalogue import Account, Grant


class Resource(NamedTuple):
    """The resource of a cursor: an account, by its position in the catalogue, and a surface; or the account list."""

    position: int = -1
    surface: str = ""


class PageRequest(NamedTuple):
    """A valid request for a page.

    ``account`` is None for the account list. ``anchor`` is the position or sequence after which the page starts, read
    from ``cursor``. ``grant`` are the positions of the accounts that the key can access; None: all.
    """

    resource: Resource
    account: Account | None
    cursor: str | None
    anchor: int
    limit: int
    grant: Grant
    day: int

    @property
    def operation(self) -> str:
        """Return the operation id (API 4)."""
        return ACCOUNTS if self.account is None else MEDIA


@dataclass(frozen=True, slots=True)
class Reply:
    """A JSON reply: status, body, and headers in addition to those that every reply has."""

    status: int
    body: bytes
    headers: Sequence[tuple[bytes, bytes]] = ()

    def fields(self, correlation_id: str) -> list[tuple[bytes, bytes]]:
        """Return all headers, including X-Correlation-ID (API 1)."""
        return [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self.body)),
            (b"x-correlation-id", correlation_id.encode()),
            *self.headers,
        ]

    async def send(self, correlation_id: str, _receive: Receive, send: Send) -> None:
        """Send the reply over ASGI."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.fields(correlation_id)})
        await send({"type": "http.response.body", "body": self.body})


class Refused(Exception):  # noqa: N818 - an error response, not a failure of the server
    """The request is answered with an error of section 7.

    ``issues`` are those of ``error.details`` (API 2): a code, and a path of integers. ``retry_after`` is in seconds.
    """

    def __init__(
        self, error: Error, *, issues: Sequence[dict[str, object]] = (), retry_after: int | None = None
    ) -> None:
        super().__init__(error.code)
        self.error = error
        self.issues = issues
        self.retry_after = retry_after

    def reply(self, correlation_id: str) -> Reply:
        """Return the error reply with its envelope (API 2), and with WWW-Authenticate for a 401 (API 5.7)."""
        status = self.error.status
        shown: dict[str, object] = {
            "code": self.error.code,
            "message": self.error.message,
            "correlation_id": correlation_id,
        }
        if self.issues:
            shown["details"] = {"issues": self.issues}
        headers = [(b"www-authenticate", b"Bearer")] if status == 401 else []
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        return Reply(status, json.dumps({"error": shown}, separators=(",", ":")).encode(), headers)
