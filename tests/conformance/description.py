"""The OpenAPI 3.1 description of API v1, from which schemathesis generates requests (API 2, 4, 5, 7)."""

from typing import Any

from connectors.sandbox.contract import (
    ACCOUNTS,
    ACCOUNTS_PATH,
    ACTIVE,
    DEFAULT_LIMIT,
    MAX_CURSOR,
    MAX_ISSUES,
    MAX_LIMIT,
    MEDIA,
    SURFACES,
    TOKEN_EXPIRED,
    Error,
)
from tests.conformance.contract_examples import may_answer

Schema = dict[str, Any]


def _text(**rules: object) -> Schema:
    return {"type": "string", **rules}


def _closed(properties: Schema, *, optional: tuple[str, ...] = ()) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _array(items: Schema, most: int) -> Schema:
    return {"type": "array", "items": items, "maxItems": most}


def _parameter(name: str, schema: Schema, **rules: object) -> Schema:
    return {"name": name, "in": "query", **rules, "schema": schema}


def _header(description: str, schema: Schema) -> Schema:
    return {"description": description, "required": True, "schema": schema}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_CORRELATION_ID = _text(pattern="^[0-9A-HJKMNP-TV-Z]{26}$")
_NEXT_CURSOR = {"type": ["string", "null"], "maxLength": MAX_CURSOR}
_ISSUE = _closed({"code": _text(minLength=1, maxLength=64), "path": _array({"type": "integer", "minimum": 0}, 16)})
SCHEMAS: Schema = {
    "AccountV1": _closed(
        {
            "id": _text(format="uuid"),
            "ig_username": _text(pattern="^[A-Za-z0-9._]+$", minLength=1, maxLength=30),
            "public_id": _text(pattern="^[A-Za-z0-9]+$", minLength=12, maxLength=16),
            "status": _text(enum=[ACTIVE, TOKEN_EXPIRED]),
        }
    ),
    "AccountPageV1": _closed({"items": _array(_ref("AccountV1"), MAX_LIMIT), "next_cursor": _NEXT_CURSOR}),
    "PublicInstagramMediaPageV1": {
        "description": "Only next_cursor is specified (API 8); other fields of the page, and its items, are not.",
        "type": "object",
        "properties": {"next_cursor": _NEXT_CURSOR},
    },
}

_CURSOR = "The next_cursor of the previous page of the same list, unchanged; omit it for the first page."
_LIMIT = _parameter("limit", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT})
_PARAMETERS = {
    ACCOUNTS: [_parameter("cursor", _text(minLength=1, maxLength=MAX_CURSOR), description=_CURSOR), _LIMIT],
    MEDIA: [
        {"name": "accountId", "in": "path", "required": True, "schema": _text(format="uuid")},
        _parameter("surface", _text(enum=list(SURFACES)), required=True),
        # Section 4.2 has no minimum length; the maximum is from section 8, which applies to every cursor.
        _parameter("cursor", _text(maxLength=MAX_CURSOR), description=_CURSOR),
        _LIMIT,
    ],
}

_TRACED = _header("The id of this request: 26 characters.", _CORRELATION_ID)
_WAIT = "Seconds to wait before the next request of the same tenant scope: a whole number, at least 1."
_OWN_HEADERS = {
    401: {"WWW-Authenticate": {"required": True, "schema": _text(const="Bearer")}},
    429: {"Retry-After": _header(_WAIT, {"type": "integer", "minimum": 1})},
}


def _error(error: Error) -> Schema:
    shown: Schema = {
        "code": {"const": error.code},
        "message": {"const": error.message},
        "correlation_id": _CORRELATION_ID,
    }
    if error is Error.VALIDATION_ERROR:
        shown["details"] = _closed({"issues": _array(_ISSUE, MAX_ISSUES)})
    return _closed({"error": _closed(shown, optional=("correlation_id",))})


def _response(status: int, description: str, schema: Schema) -> Schema:
    headers = {"X-Correlation-ID": _TRACED, **_OWN_HEADERS.get(status, {})}
    return {"description": description, "headers": headers, "content": {"application/json": {"schema": schema}}}


def _operation(name: str, page: str, summary: str) -> Schema:
    responses = {"200": _response(200, "One page of the list.", _ref(page))}
    possible = [error for error in Error if may_answer(name, error.code)]
    for status in sorted({error.status for error in possible}):
        codes = [error.code for error in possible if error.status == status]
        one_of = {"oneOf": [_ref(f"error_{code}") for code in codes]}
        responses[str(status)] = _response(status, ", ".join(codes), one_of)
    return {
        "operationId": name,
        "summary": summary,
        "security": [{"apiKey": []}],
        "parameters": _PARAMETERS[name],
        "responses": responses,
    }


def description() -> Schema:
    """Return the OpenAPI document."""
    accounts = _operation(ACCOUNTS, "AccountPageV1", "List the accounts the API key can access")
    media = _operation(MEDIA, "PublicInstagramMediaPageV1", "List posts or stories of one connected account")
    errors = {f"error_{error.code}": _error(error) for error in Error}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Social-media account automation", "version": "1"},
        "servers": [{"url": "/"}],
        "paths": {ACCOUNTS_PATH: {"get": accounts}, f"{ACCOUNTS_PATH}/{{accountId}}/media": {"get": media}},
        "components": {
            "schemas": {**SCHEMAS, **errors},
            "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer"}},
        },
    }
