"""Requests that are checked before anything is looked up (API 4), the replies to them, and errors (API 7)."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from starlette.datastructures import QueryParams
from starlette.types import Receive, Send

from connectors.sandbox import contract
from connectors.sandbox.contract import ACCOUNTS_PATH, Error
from connectors.sandbox.data.catalogue import Account, Grant

_MEDIA_PATH = re.compile(rf"{ACCOUNTS_PATH}/([^/]+)/media", re.DOTALL)
_LIMIT = re.compile(r"[0-9]{1,9}")
_ACCOUNT_QUERY = frozenset({"cursor", "limit"})
_MEDIA_QUERY = _ACCOUNT_QUERY | {"surface"}


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
        return contract.ACCOUNTS if self.account is None else contract.MEDIA


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
        error = self.error
        shown: dict[str, object] = {"code": error.code, "message": error.message, "correlation_id": correlation_id}
        if self.issues:
            shown["details"] = {"issues": self.issues}
        headers = [(b"www-authenticate", b"Bearer")] if error.status == 401 else []
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        return Reply(error.status, json.dumps({"error": shown}, separators=(",", ":")).encode(), headers)


def account_of(method: str, path: str) -> str | None:
    """Return the account id in a path; None for the account list.

    Raises Refused ``api_invalid_request_url`` for any other path or method.
    """
    found = _MEDIA_PATH.fullmatch(path)
    if method != "GET" or (found is None and path != ACCOUNTS_PATH):
        raise Refused(Error.INVALID_REQUEST_URL)
    return found and found[1]


def read_query(raw: bytes, *, media: bool) -> tuple[str, str | None, int]:
    """Return the surface (empty for the account list), the cursor and the limit of a query (API 4.1, 4.2).

    Raises Refused for unknown or repeated names: with ``api_automation_invalid_configuration`` for the media list, also
    for a missing or unknown surface; with ``api_validation_error`` for the account list, and the names' positions in
    the query, from 0, as paths of the issues. Then with ``api_invalid_limit`` or ``api_invalid_cursor`` (API 4, 7, 8).
    """
    pairs = QueryParams(raw).multi_items()
    given = dict(pairs)
    if media:
        is_known = len(given) == len(pairs) and given.keys() <= _MEDIA_QUERY
        if not is_known or given.get("surface") not in contract.SURFACES:
            raise Refused(Error.INVALID_CONFIGURATION)
    elif issues := list(_issues([name for name, _ in pairs])):
        raise Refused(Error.VALIDATION_ERROR, issues=issues[: contract.MAX_ISSUES])
    limit, cursor = given.get("limit", str(contract.DEFAULT_LIMIT)), given.get("cursor")
    if _LIMIT.fullmatch(limit) is None or not 1 <= int(limit) <= contract.MAX_LIMIT:
        raise Refused(Error.INVALID_LIMIT)
    if cursor is not None and not 1 <= len(cursor) <= contract.MAX_CURSOR:
        raise Refused(Error.INVALID_CURSOR)
    return given.get("surface", ""), cursor, int(limit)


def _issues(names: list[str]) -> Iterator[dict[str, object]]:
    for index, name in enumerate(names):
        if name not in _ACCOUNT_QUERY:
            yield {"code": "unrecognized_keys", "path": [index]}
        elif name in names[:index]:
            yield {"code": "duplicate_key", "path": [index]}
