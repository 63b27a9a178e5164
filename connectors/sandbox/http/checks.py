"""Validates a request's URL, query and body before anything is looked up (API 4, 7)."""

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from urllib.parse import unquote_to_bytes

from connectors.sandbox.contract import (
    ACCOUNTS_PATH,
    DEFAULT_LIMIT,
    MAX_BODY,
    MAX_CURSOR,
    MAX_DEPTH,
    MAX_ISSUES,
    MAX_LIMIT,
    SURFACES,
    Error,
)
from connectors.sandbox.http.replies import Receive, Refused

_BAD_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_MEDIA_PATH = re.compile(rf"{ACCOUNTS_PATH}/([^/]+)/media", re.DOTALL)
_LIMIT = re.compile(r"[0-9]{1,9}")
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)
_ACCOUNT_QUERY = frozenset({"cursor", "limit"})
_MEDIA_QUERY = frozenset({"cursor", "limit", "surface"})


def _text(raw: bytes) -> str:
    if b"%" in raw:
        if _BAD_PERCENT.search(raw):
            raise Refused(Error.INVALID_REQUEST_URL)
        raw = unquote_to_bytes(raw)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Refused(Error.INVALID_REQUEST_URL) from None


def account_of(method: str, raw_path: bytes) -> str | None:
    """Return the account id in a path; None for the account list.

    Raises Refused ``api_invalid_request_url`` for any other path or method.
    """
    path = _text(raw_path)
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
    parts = [part.replace(b"+", b" ").partition(b"=") for part in raw.split(b"&") if part]
    pairs = [(_text(name), _text(value)) for name, _, value in parts]
    given = dict(pairs)
    if media:
        if len(given) < len(pairs) or not given.keys() <= _MEDIA_QUERY or given.get("surface") not in SURFACES:
            raise Refused(Error.AUTOMATION_INVALID_CONFIGURATION)
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


def body_length(headers: dict[bytes, bytes]) -> int | None:
    """Return the body's length in bytes according to its headers; None if it is not given.

    Raises Refused ``api_invalid_content_length``.
    """
    if b"transfer-encoding" in headers:
        return None
    length = headers.get(b"content-length", b"0")
    if not length.isdigit():
        raise Refused(Error.INVALID_CONTENT_LENGTH)
    return int(length)


async def read_body(receive: Receive, length: int | None) -> bytes:
    """Read a request's body of at most 1 MiB. Raises Refused ``api_body_too_large``."""
    if length is not None and length > MAX_BODY:
        raise Refused(Error.BODY_TOO_LARGE)
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY:
            raise Refused(Error.BODY_TOO_LARGE)
    return bytes(body)


def check_body(body: bytes, content_type: bytes) -> None:
    """Check that a body is valid JSON. No operation uses a body, but all refuse invalid ones (API 1, 7)."""
    if not body:
        return
    if content_type.partition(b";")[0].strip().lower() != b"application/json":
        raise Refused(Error.UNSUPPORTED_MEDIA_TYPE)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise Refused(Error.INVALID_UTF8) from None
    if _depth(body) > MAX_DEPTH:
        raise Refused(Error.JSON_TOO_DEEP)
    try:
        json.loads(text)
    except ValueError:
        raise Refused(Error.INVALID_JSON) from None


def _depth(body: bytes) -> int:
    steps = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}
    return max(accumulate(steps.get(token.group(), 0) for token in _STRUCTURE.finditer(body)), default=0)
