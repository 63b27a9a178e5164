"""The documented constants of API v1: operations, scopes, limits and the table of errors (API 2, 4, 5, 7, 8)."""

import re
from collections.abc import Mapping
from typing import Literal, get_args

ACCOUNTS_PATH = "/api/v1/accounts"
ACCOUNTS, MEDIA = "accounts.list", "accounts.media.list"
CATALOG_SCOPE, ACCOUNT_SCOPE = "account_catalog", "selected_account"

Surface = Literal["posts", "stories"]
SURFACES: tuple[str, ...] = get_args(Surface)
POSTS, STORIES = SURFACES

DEFAULT_LIMIT, MAX_LIMIT, MAX_CURSOR, MAX_ISSUES = 25, 50, 1024, 32

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
ACTIVE = "active"
TOKEN_EXPIRED = "token_expired"  # noqa: S105 - a status of the contract, not a secret

_DENIED = "This credential is not authorized for the request."
_CONFIGURATION = "Configuration fields do not match the public automation contract."

# Section 7: the HTTP status and the fixed message of each code.
ERRORS: Mapping[str, tuple[int, str]] = {
    "api_invalid_content_length": (400, "Invalid Content-Length."),
    "api_invalid_json": (400, "The request body is not valid JSON."),
    "api_invalid_request_url": (400, "The request URL is invalid."),
    "api_invalid_utf8": (400, "The request body is not valid UTF-8."),
    "api_unauthorized": (401, "Authentication required."),
    "api_account_not_granted": (403, _DENIED),
    "api_forbidden": (403, _DENIED),
    "api_scope_denied": (403, _DENIED),
    "api_automation_media_not_found": (404, "The referenced Instagram media was not found."),
    "api_body_too_large": (413, "The JSON request body exceeds 1 MiB."),
    "api_json_too_deep": (413, "The JSON request body exceeds maximum depth."),
    "api_unsupported_media_type": (415, "Content-Type must be application/json."),
    "api_invalid_cursor": (422, "The projection cursor is invalid for this resource."),
    "api_invalid_limit": (422, "The page limit must be an integer between 1 and 50."),
    "api_validation_error": (422, "The request does not match the declared schema."),
    "api_automation_invalid_configuration": (422, _CONFIGURATION),
    "rate_limited": (429, "Rate limit exceeded."),
    "api_internal_error": (500, "The request could not be completed."),
    "api_invalid_projection": (500, "The projected list contains an invalid item key."),
    "api_projection_too_large": (500, "The first projected item exceeds the result byte limit."),
    "api_account_resolution_unavailable": (503, "The reachable account set could not be read."),
    "rate_limiter_unavailable": (503, "Rate limiter unavailable."),
}
