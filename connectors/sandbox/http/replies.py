"""Requests that are checked before anything is looked up (API 4), and refusals (API 7)."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.datastructures import QueryParams
from starlette.responses import JSONResponse, Response

from connectors.sandbox import contract
from connectors.sandbox.contract import ACCOUNTS_PATH
from connectors.sandbox.data.catalogue import Account, Grant

_MEDIA_PATH = re.compile(rf"{ACCOUNTS_PATH}/([^/]+)/media", re.DOTALL)
_LIMIT = re.compile(r"[0-9]{1,9}")
_ACCOUNT_QUERY = frozenset({"cursor", "limit"})
_MEDIA_QUERY = _ACCOUNT_QUERY | {"surface"}

TRACE = "X-Correlation-ID"

# What a cursor belongs to: an account, by its position in the catalogue, and a surface; (-1, ""): the account list.
Resource = tuple[int, str]


class PageRequest(NamedTuple):
    """A valid request for a page.

    ``account`` is None for the account list, and ``surface`` empty. ``anchor`` is the position or sequence after which
    the page starts, read from ``cursor``. ``grant`` are the positions of the accounts that the key can access; None:
    all.
    """

    account: Account | None
    surface: str
    cursor: str | None
    anchor: int
    limit: int
    grant: Grant
    day: int

    @property
    def operation(self) -> str:
        """Return the operation id (API 4)."""
        return contract.ACCOUNTS if self.account is None else contract.MEDIA

    @property
    def resource(self) -> Resource:
        """Return what its cursor belongs to."""
        return -1 if self.account is None else self.account.position, self.surface


class Refused(Exception):  # noqa: N818 - an error response, not a failure of the server
    """The request is answered with an error of section 7.

    ``issues`` are those of ``error.details`` (API 2): a code, and a path of integers. ``retry_after`` is in seconds.
    """

    def __init__(
        self, code: str, *, issues: Sequence[Mapping[str, object]] = (), retry_after: int | None = None
    ) -> None:
        super().__init__(code)
        self.code = code
        self.issues = issues
        self.retry_after = retry_after

    def reply(self, correlation_id: str) -> Response:
        """Return the error reply with its envelope (API 2), and with WWW-Authenticate for a 401 (API 5.7)."""
        status, message = contract.ERRORS[self.code]
        shown: dict[str, object] = {"code": self.code, "message": message, "correlation_id": correlation_id}
        if self.issues:
            shown["details"] = {"issues": self.issues}
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        return JSONResponse({"error": shown}, status, headers)


def account_of(method: str, path: str) -> str | None:
    """Return the account id in a path; None for the account list.

    Raises Refused ``api_invalid_request_url`` for any other path or method.
    """
    found = _MEDIA_PATH.fullmatch(path)
    if method != "GET" or (found is None and path != ACCOUNTS_PATH):
        raise Refused("api_invalid_request_url")
    return found and found[1]


def read_query(raw: bytes, *, media: bool) -> tuple[str, str | None, int]:
    """Return the surface (empty for the account list), the cursor and the limit of a query (API 4.1, 4.2).

    Raises Refused for unknown or repeated names: with ``api_automation_invalid_configuration`` for the media list, also
    for a missing or unknown surface; with ``api_validation_error`` for the account list, and the names' positions in
    the query, from 0, as paths of the issues. Then with ``api_invalid_limit`` or ``api_invalid_cursor`` (API 4, 7, 8).
    """
    pairs = QueryParams(raw).multi_items()
    given = dict(pairs)
    names, known = [name for name, _ in pairs], _MEDIA_QUERY if media else _ACCOUNT_QUERY
    wrong = [index for index, name in enumerate(names) if name not in known or name in names[:index]]
    if media and (wrong or given.get("surface") not in contract.SURFACES):
        raise Refused("api_automation_invalid_configuration")
    if wrong:
        issues = [{"code": "unrecognized_keys", "path": [index]} for index in wrong[: contract.MAX_ISSUES]]
        raise Refused("api_validation_error", issues=issues)
    limit, cursor = given.get("limit", str(contract.DEFAULT_LIMIT)), given.get("cursor")
    if _LIMIT.fullmatch(limit) is None or not 1 <= int(limit) <= contract.MAX_LIMIT:
        raise Refused("api_invalid_limit")
    if cursor is not None and not 1 <= len(cursor) <= contract.MAX_CURSOR:
        raise Refused("api_invalid_cursor")
    return given.get("surface", ""), cursor, int(limit)
