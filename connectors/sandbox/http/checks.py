"""Validates a request's URL, query and body before anything is looked up (API 4, 7)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from connectors.sandbox.contract import (
    ACCOUNTS_PATH,
    DEFAULT_LIMIT,
    MAX_BODY,
    MAX_CURSOR,
    MAX_DEPTH,
    MAX_ISSUES,
    MAX_LIMIT,
    MEDIA_SUFFIX,
    SURFACES,
    UUID,
    Code,
    Issue,
)
from connectors.sandbox.http.exchange import Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

_BAD_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_LIMIT = re.compile(r"[0-9]{1,9}")
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)
_ACCOUNT_QUERY = frozenset({"cursor", "limit"})
_MEDIA_QUERY = frozenset({"cursor", "limit", "surface"})


@dataclass(frozen=True, slots=True)
class Query:
    """The validated query of either operation (API 4.1, 4.2)."""

    limit: int = DEFAULT_LIMIT
    cursor: str | None = None
    surface: str | None = None


def text(raw: bytes) -> str:
    """Decode percent-encoded bytes. Raises Refused ``api_invalid_request_url``."""
    if b"%" in raw:
        if _BAD_PERCENT.search(raw):
            raise Refused(Code.INVALID_REQUEST_URL)
        raw = unquote_to_bytes(raw)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Refused(Code.INVALID_REQUEST_URL) from None


def account_of(method: str, raw_path: bytes) -> str | None:
    """Return the account id in a path; None for the account list.

    Raises Refused ``api_invalid_request_url`` for any other path or method.
    """
    path = text(raw_path)
    if method == "GET":
        if path == ACCOUNTS_PATH:
            return None
        if path.startswith(f"{ACCOUNTS_PATH}/") and path.endswith(MEDIA_SUFFIX):
            account_id = path[len(ACCOUNTS_PATH) + 1 : -len(MEDIA_SUFFIX)]
            if account_id and "/" not in account_id:
                return account_id
    raise Refused(Code.INVALID_REQUEST_URL)


def account_uuid(account_id: str) -> str:
    """Return the id if it is a UUID; otherwise raises Refused ``api_automation_invalid_configuration``."""
    if UUID.fullmatch(account_id) is None:
        raise Refused(Code.AUTOMATION_INVALID_CONFIGURATION)
    return account_id


def account_query(raw: bytes) -> Query:
    """Return the validated query of the account list (API 4.1).

    Raises Refused with ``api_validation_error`` for unknown or repeated names (the paths of the issues are the
    parameters' positions in the query, from 0), then with ``api_invalid_limit`` or ``api_invalid_cursor``.
    """
    pairs = _pairs(raw)
    issues = []
    seen: dict[str, str] = {}
    for index, (name, value) in enumerate(pairs):
        if name not in _ACCOUNT_QUERY:
            issues.append(Issue("unrecognized_keys", (index,)))
        elif name in seen:
            issues.append(Issue("duplicate_key", (index,)))
        seen[name] = value
    if issues:
        raise Refused(Code.VALIDATION_ERROR, issues=issues[:MAX_ISSUES])
    return Query(_limit(seen.get("limit")), _cursor(seen.get("cursor")))


def media_query(raw: bytes) -> Query:
    """Return the validated query of the media list (API 4.2).

    Raises Refused with ``api_automation_invalid_configuration`` for unknown or repeated names and for a missing or
    unknown surface, then as for the account list (API 8, rules 4 and 5).
    """
    pairs = _pairs(raw)
    seen = dict(pairs)
    surface = seen.get("surface")
    if len(seen) != len(pairs) or not seen.keys() <= _MEDIA_QUERY or surface not in SURFACES:
        raise Refused(Code.AUTOMATION_INVALID_CONFIGURATION)
    return Query(_limit(seen.get("limit")), _cursor(seen.get("cursor")), surface)


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    found = []
    for part in raw.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            found.append((text(name.replace(b"+", b" ")), text(value.replace(b"+", b" "))))
    return found


def _limit(value: str | None) -> int:
    if value is None:
        return DEFAULT_LIMIT
    if _LIMIT.fullmatch(value) is None or not 1 <= int(value) <= MAX_LIMIT:
        raise Refused(Code.INVALID_LIMIT)
    return int(value)


def _cursor(value: str | None) -> str | None:
    if value is not None and not 1 <= len(value) <= MAX_CURSOR:
        raise Refused(Code.INVALID_CURSOR)
    return value


def body_length(headers: dict[bytes, bytes]) -> int | None:
    """Return the body's length in bytes according to its headers; None if it is not given.

    Raises Refused ``api_invalid_content_length``.
    """
    if b"transfer-encoding" in headers:
        return None
    raw = headers.get(b"content-length", b"0")
    if not raw.isdigit():
        raise Refused(Code.INVALID_CONTENT_LENGTH)
    return int(raw)


async def read_body(receive: Callable[[], Awaitable[MutableMapping[str, object]]], length: int | None) -> bytes:
    """Read a request's body of at most 1 MiB. Raises Refused ``api_body_too_large``."""
    if length is not None and length > MAX_BODY:
        raise Refused(Code.BODY_TOO_LARGE)
    body = bytearray()
    while True:
        message = await receive()
        chunk = message.get("body", b"")
        body += chunk if isinstance(chunk, bytes) else b""
        if len(body) > MAX_BODY:
            raise Refused(Code.BODY_TOO_LARGE)
        if not message.get("more_body", False):
            return bytes(body)


def check_body(body: bytes, content_type: bytes) -> None:
    """Check that a body is valid JSON. No operation uses a body, but all refuse invalid ones (API 1, 7)."""
    if not body:
        return
    if content_type.partition(b";")[0].strip().lower() != b"application/json":
        raise Refused(Code.UNSUPPORTED_MEDIA_TYPE)
    try:
        decoded = body.decode()
    except UnicodeDecodeError:
        raise Refused(Code.INVALID_UTF8) from None
    if _depth(body) > MAX_DEPTH:
        raise Refused(Code.JSON_TOO_DEEP)
    try:
        json.loads(decoded)
    except (ValueError, RecursionError):
        raise Refused(Code.INVALID_JSON) from None


def _depth(body: bytes) -> int:
    deepest = depth = 0
    for token in _STRUCTURE.finditer(body):
        mark = token.group()
        if mark in {b"[", b"{"}:
            depth += 1
            deepest = max(deepest, depth)
        elif mark in {b"]", b"}"}:
            depth -= 1
    return deepest
