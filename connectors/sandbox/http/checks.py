"""Validates a request's path and query before anything is looked up (API 4, 7)."""

import re
from collections.abc import Iterator

from starlette.datastructures import QueryParams

from connectors.sandbox.contract import (
    ACCOUNTS_PATH,
    DEFAULT_LIMIT,
    MAX_CURSOR,
    MAX_ISSUES,
    MAX_LIMIT,
    SURFACES,
    Error,
)
from connectors.sandbox.http.replies import Refused

_MEDIA_PATH = re.compile(rf"{ACCOUNTS_PATH}/([^/]+)/media", re.DOTALL)
_LIMIT = re.compile(r"[0-9]{1,9}")
_ACCOUNT_QUERY = frozenset({"cursor", "limit"})
_MEDIA_QUERY = frozenset({"cursor", "limit", "surface"})


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
        if len(given) < len(pairs) or not given.keys() <= _MEDIA_QUERY or given.get("surface") not in SURFACES:
            raise Refused(Error.INVALID_CONFIGURATION)
    elif issues := list(_issues([name for name, _ in pairs])):
        raise Refused(Error.VALIDATION_ERROR, issues=issues[:MAX_ISSUES])
    limit, cursor = given.get("limit", str(DEFAULT_LIMIT)), given.get("cursor")
    if _LIMIT.fullmatch(limit) is None or not 1 <= int(limit) <= MAX_LIMIT:
        raise Refused(Error.INVALID_LIMIT)
    if cursor is not None and not 1 <= len(cursor) <= MAX_CURSOR:
        raise Refused(Error.INVALID_CURSOR)
    return given.get("surface", ""), cursor, int(limit)


def _issues(names: list[str]) -> Iterator[dict[str, object]]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name not in _ACCOUNT_QUERY:
            yield {"code": "unrecognized_keys", "path": [index]}
        elif name in seen:
            yield {"code": "duplicate_key", "path": [index]}
        seen.add(name)
