"""The documented constants of API v1: operations, scopes, limits and the table of errors (API 2, 4, 5, 7, 8)."""

import re
from enum import Enum
from typing import Literal, get_args

ACCOUNTS_PATH = "/api/v1/accounts"
ACCOUNTS, MEDIA = "accounts.list", "accounts.media.list"
CATALOG_SCOPE, ACCOUNT_SCOPE = "account_catalog", "selected_account"

Surface = Literal["posts", "stories"]
SURFACES: tuple[str, ...] = get_args(Surface)
POSTS, STORIES = SURFACES

MEDIA_KEY_SCOPE = "automations:read"
KEY_SCOPES: tuple[str, ...] = (
    "automations:read",
    "automations:write",
    "automations:activate",
    "contacts:read_pii",
    "contacts:write",
    "metrics:read",
)

DEFAULT_LIMIT = 25
MAX_LIMIT = 50
MAX_CURSOR = 1024
MAX_ISSUES = 32

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
ACTIVE = "active"
TOKEN_EXPIRED = "token_expired"  # noqa: S105 - a status of the contract, not a secret

_DENIED = "This credential is not authorized for the request."
_CONFIGURATION = "Configuration fields do not match the public automation contract."


class Error(Enum):
    """Section 7: HTTP status, code and fixed message."""

    INVALID_CONTENT_LENGTH = 400, "api_invalid_content_length", "Invalid Content-Length."
    INVALID_JSON = 400, "api_invalid_json", "The request body is not valid JSON."
    INVALID_REQUEST_URL = 400, "api_invalid_request_url", "The request URL is invalid."
    INVALID_UTF8 = 400, "api_invalid_utf8", "The request body is not valid UTF-8."
    UNAUTHORIZED = 401, "api_unauthorized", "Authentication required."
    ACCOUNT_NOT_GRANTED = 403, "api_account_not_granted", _DENIED
    FORBIDDEN = 403, "api_forbidden", _DENIED
    SCOPE_DENIED = 403, "api_scope_denied", _DENIED
    MEDIA_NOT_FOUND = 404, "api_automation_media_not_found", "The referenced Instagram media was not found."
    BODY_TOO_LARGE = 413, "api_body_too_large", "The JSON request body exceeds 1 MiB."
    JSON_TOO_DEEP = 413, "api_json_too_deep", "The JSON request body exceeds maximum depth."
    UNSUPPORTED_MEDIA_TYPE = 415, "api_unsupported_media_type", "Content-Type must be application/json."
    INVALID_CURSOR = 422, "api_invalid_cursor", "The projection cursor is invalid for this resource."
    INVALID_LIMIT = 422, "api_invalid_limit", "The page limit must be an integer between 1 and 50."
    VALIDATION_ERROR = 422, "api_validation_error", "The request does not match the declared schema."
    INVALID_CONFIGURATION = 422, "api_automation_invalid_configuration", _CONFIGURATION
    RATE_LIMITED = 429, "rate_limited", "Rate limit exceeded."
    INTERNAL_ERROR = 500, "api_internal_error", "The request could not be completed."
    INVALID_PROJECTION = 500, "api_invalid_projection", "The projected list contains an invalid item key."
    PROJECTION_TOO_LARGE = 500, "api_projection_too_large", "The first projected item exceeds the result byte limit."
    ACCOUNTS_UNAVAILABLE = 503, "api_account_resolution_unavailable", "The reachable account set could not be read."
    LIMITER_UNAVAILABLE = 503, "rate_limiter_unavailable", "Rate limiter unavailable."

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message


ERRORS = {error.code: error for error in Error}
