"""The documented constants of API v1: operations, limits and the table of errors (API 2, 4, 7, 8)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ACCOUNTS_PATH = "/api/v1/accounts"
MEDIA_SUFFIX = "/media"
ACCOUNTS = "accounts.list"
MEDIA = "accounts.media.list"
BOTH = (ACCOUNTS, MEDIA)
CATALOG_SCOPE = "account_catalog"
ACCOUNT_SCOPE = "selected_account"
READ = "read"
SAFE = "safe"

POSTS = "posts"
STORIES = "stories"
SURFACES = (POSTS, STORIES)

MEDIA_KEY_SCOPE = "automations:read"
KEY_SCOPES = (
    MEDIA_KEY_SCOPE,
    "automations:write",
    "automations:activate",
    "contacts:read_pii",
    "contacts:write",
    "metrics:read",
)

DEFAULT_LIMIT = 25
MAX_LIMIT = 50
MAX_CURSOR = 1024
MAX_BODY = 1024 * 1024
MAX_ISSUES = 32
# The API's own limit is not documented; no normal body is nested nearly as deep.
MAX_DEPTH = 64

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
CORRELATION_ID = r"^[0-9A-HJKMNP-TV-Z]{26}$"
USERNAME = r"^[A-Za-z0-9._]+$"
PUBLIC_ID = r"^[A-Za-z0-9]+$"
ACTIVE = "active"
TOKEN_EXPIRED = "token_expired"  # noqa: S105 - a status of the contract, not a secret


@dataclass(frozen=True, slots=True)
class OperationRow:
    """The properties of an operation in section 4; its rate-limit descriptor has the operation's name.

    ``required_scope`` is None if any valid key suffices.
    """

    name: str
    tenant_scope: str
    required_scope: str | None
    account_access: bool
    effect: str = READ
    idempotency: str = SAFE
    cost_class: str = READ


OPERATIONS = {
    ACCOUNTS: OperationRow(ACCOUNTS, CATALOG_SCOPE, None, account_access=False),
    MEDIA: OperationRow(MEDIA, ACCOUNT_SCOPE, MEDIA_KEY_SCOPE, account_access=True),
}


class Code(StrEnum):
    """The error codes of section 7."""

    INVALID_CONTENT_LENGTH = "api_invalid_content_length"
    INVALID_JSON = "api_invalid_json"
    INVALID_REQUEST_URL = "api_invalid_request_url"
    INVALID_UTF8 = "api_invalid_utf8"
    UNAUTHORIZED = "api_unauthorized"
    ACCOUNT_NOT_GRANTED = "api_account_not_granted"
    FORBIDDEN = "api_forbidden"
    SCOPE_DENIED = "api_scope_denied"
    AUTOMATION_MEDIA_NOT_FOUND = "api_automation_media_not_found"
    BODY_TOO_LARGE = "api_body_too_large"
    JSON_TOO_DEEP = "api_json_too_deep"
    UNSUPPORTED_MEDIA_TYPE = "api_unsupported_media_type"
    INVALID_CURSOR = "api_invalid_cursor"
    INVALID_LIMIT = "api_invalid_limit"
    VALIDATION_ERROR = "api_validation_error"
    AUTOMATION_INVALID_CONFIGURATION = "api_automation_invalid_configuration"
    RATE_LIMITED = "rate_limited"
    INTERNAL_ERROR = "api_internal_error"
    INVALID_PROJECTION = "api_invalid_projection"
    PROJECTION_TOO_LARGE = "api_projection_too_large"
    ACCOUNT_RESOLUTION_UNAVAILABLE = "api_account_resolution_unavailable"
    RATE_LIMITER_UNAVAILABLE = "rate_limiter_unavailable"


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """One row of section 7: HTTP status, code, fixed message, and the operations for which it is documented."""

    status: int
    code: Code
    message: str
    operations: tuple[str, ...] = BOTH


_DENIED = "This credential is not authorized for the request."
_CATALOGUE = (ACCOUNTS,)

_ROWS = (
    ErrorRow(400, Code.INVALID_CONTENT_LENGTH, "Invalid Content-Length."),
    ErrorRow(400, Code.INVALID_JSON, "The request body is not valid JSON."),
    ErrorRow(400, Code.INVALID_REQUEST_URL, "The request URL is invalid."),
    ErrorRow(400, Code.INVALID_UTF8, "The request body is not valid UTF-8."),
    ErrorRow(401, Code.UNAUTHORIZED, "Authentication required."),
    ErrorRow(403, Code.ACCOUNT_NOT_GRANTED, _DENIED),
    ErrorRow(403, Code.FORBIDDEN, _DENIED),
    ErrorRow(403, Code.SCOPE_DENIED, _DENIED),
    ErrorRow(404, Code.AUTOMATION_MEDIA_NOT_FOUND, "The referenced Instagram media was not found.", (MEDIA,)),
    ErrorRow(413, Code.BODY_TOO_LARGE, "The JSON request body exceeds 1 MiB."),
    ErrorRow(413, Code.JSON_TOO_DEEP, "The JSON request body exceeds maximum depth."),
    ErrorRow(415, Code.UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json."),
    ErrorRow(422, Code.INVALID_CURSOR, "The projection cursor is invalid for this resource.", _CATALOGUE),
    ErrorRow(422, Code.INVALID_LIMIT, "The page limit must be an integer between 1 and 50.", _CATALOGUE),
    ErrorRow(422, Code.VALIDATION_ERROR, "The request does not match the declared schema.", _CATALOGUE),
    ErrorRow(
        422,
        Code.AUTOMATION_INVALID_CONFIGURATION,
        "Configuration fields do not match the public automation contract.",
        (MEDIA,),
    ),
    ErrorRow(429, Code.RATE_LIMITED, "Rate limit exceeded.", _CATALOGUE),
    ErrorRow(500, Code.INTERNAL_ERROR, "The request could not be completed.", _CATALOGUE),
    ErrorRow(
        500,
        Code.INVALID_PROJECTION,
        "The projected list contains an invalid item key.",
        _CATALOGUE,
    ),
    ErrorRow(
        500,
        Code.PROJECTION_TOO_LARGE,
        "The first projected item exceeds the result byte limit.",
        _CATALOGUE,
    ),
    ErrorRow(
        503,
        Code.ACCOUNT_RESOLUTION_UNAVAILABLE,
        "The reachable account set could not be read.",
        _CATALOGUE,
    ),
    ErrorRow(503, Code.RATE_LIMITER_UNAVAILABLE, "Rate limiter unavailable.", _CATALOGUE),
)
ERRORS: dict[str, ErrorRow] = {row.code: row for row in _ROWS}

# Errors that sections 4.2 and 7 do not list for the media list, but that section 8 (rules 4 and 5, and the rate-limit
# descriptor of 4.2) applies to every list operation.
ALSO_ON_MEDIA = (Code.INVALID_CURSOR, Code.INVALID_LIMIT, Code.RATE_LIMITED)


@dataclass(frozen=True, slots=True)
class Issue:
    """One of ``error.details.issues`` (API 2): a code of 1 to 64 characters, a path of integers >= 0."""

    code: str
    path: tuple[int, ...] = ()


def envelope(code: str, message: str, correlation_id: str | None, issues: Sequence[Issue] = ()) -> bytes:
    """Return the error envelope (API 2) as JSON bytes."""
    error: dict[str, object] = {"code": code, "message": message}
    if correlation_id is not None:
        error["correlation_id"] = correlation_id
    if issues:
        shown = [{"code": issue.code, "path": list(issue.path)} for issue in issues[:MAX_ISSUES]]
        error["details"] = {"issues": shown}
    return json.dumps({"error": error}, separators=(",", ":")).encode()
