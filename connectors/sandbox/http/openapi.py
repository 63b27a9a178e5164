"""The OpenAPI 3.1 description of API v1, generated from the tables that the server uses (API 2, 4, 5, 7)."""

from __future__ import annotations

from typing import Any

from connectors.sandbox.contract import (
    ACCOUNTS,
    ACCOUNTS_PATH,
    ACTIVE,
    ALSO_ON_MEDIA,
    CORRELATION_ID,
    DEFAULT_LIMIT,
    ERRORS,
    MAX_CURSOR,
    MAX_ISSUES,
    MAX_LIMIT,
    MEDIA,
    OPERATIONS,
    PUBLIC_ID,
    SURFACES,
    TOKEN_EXPIRED,
    USERNAME,
    Code,
    ErrorRow,
    OperationRow,
)

Schema = dict[str, Any]


def _closed(properties: Schema, *, optional: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


_NEXT_CURSOR = {"type": ["string", "null"], "maxLength": MAX_CURSOR}
_ISSUE = _closed(
    {
        "code": {"type": "string", "minLength": 1, "maxLength": 64},
        "path": {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 16},
    }
)
SCHEMAS: Schema = {
    "AccountV1": _closed(
        {
            "id": {"type": "string", "format": "uuid"},
            "ig_username": {"type": "string", "pattern": USERNAME, "minLength": 1, "maxLength": 30},
            "public_id": {"type": "string", "pattern": PUBLIC_ID, "minLength": 12, "maxLength": 16},
            "status": {"type": "string", "enum": [ACTIVE, TOKEN_EXPIRED]},
        }
    ),
    "AccountPageV1": _closed(
        {
            "items": {
                "type": "array",
                "maxItems": MAX_LIMIT,
                "items": {"$ref": "#/components/schemas/AccountV1"},
            },
            "next_cursor": _NEXT_CURSOR,
        }
    ),
    "PublicInstagramMediaPageV1": {
        "description": "Only next_cursor is specified (API 8); other fields of the page, and its items, are not.",
        "type": "object",
        "properties": {"next_cursor": _NEXT_CURSOR},
    },
}

_CORRELATION_HEADER = {
    "description": "The id of this request: 26 characters.",
    "required": True,
    "schema": {"type": "string", "pattern": CORRELATION_ID},
}
_RETRY_AFTER_HEADER = {
    "description": "Seconds to wait before the next request of the same tenant scope: a whole number, at least 1.",
    "required": True,
    "schema": {"type": "integer", "minimum": 1},
}
_BEARER_HEADER = {"required": True, "schema": {"type": "string", "const": "Bearer"}}
_OWN_HEADERS = {401: {"WWW-Authenticate": _BEARER_HEADER}, 429: {"Retry-After": _RETRY_AFTER_HEADER}}

_CURSOR = {
    "name": "cursor",
    "in": "query",
    "description": "The next_cursor of the previous page of the same list, unchanged; omit it for the first page.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_CURSOR},
}
# Section 4.2 has no minimum length; the maximum is from section 8, which applies to every cursor.
_MEDIA_CURSOR = {**_CURSOR, "schema": {"type": "string", "maxLength": MAX_CURSOR}}
_LIMIT = {
    "name": "limit",
    "in": "query",
    "schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
}
_ACCOUNT_ID = {
    "name": "accountId",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "format": "uuid"},
}
_SURFACE = {
    "name": "surface",
    "in": "query",
    "required": True,
    "schema": {"type": "string", "enum": list(SURFACES)},
}


def rows_of(operation: str) -> list[ErrorRow]:
    """Return the possible errors of an operation: those of section 7, and for media those of section 8."""
    return [
        row
        for row in ERRORS.values()
        if operation in row.operations or (operation == MEDIA and row.code in ALSO_ON_MEDIA)
    ]


def _error_schema(row: ErrorRow) -> Schema:
    error: Schema = {
        "code": {"const": row.code},
        "message": {"const": row.message},
        "correlation_id": {"type": "string", "pattern": CORRELATION_ID},
    }
    if row.code == Code.VALIDATION_ERROR:
        issues = {"type": "array", "maxItems": MAX_ISSUES, "items": _ISSUE}
        error["details"] = _closed({"issues": issues})
    return _closed({"error": _closed(error, optional=("correlation_id",))})


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


def _responses(operation: str, page: str) -> Schema:
    headers = {"X-Correlation-ID": _CORRELATION_HEADER}
    rows = rows_of(operation)
    responses: Schema = {
        "200": {
            "description": "One page of the list.",
            "headers": headers,
            "content": _json({"$ref": f"#/components/schemas/{page}"}),
        }
    }
    for status in sorted({row.status for row in rows}):
        codes = [row for row in rows if row.status == status]
        responses[str(status)] = {
            "description": ", ".join(row.code for row in codes),
            "headers": {**headers, **_OWN_HEADERS.get(status, {})},
            "content": _json({"oneOf": [{"$ref": f"#/components/schemas/error_{row.code}"} for row in codes]}),
        }
    return responses


def _aspects(row: OperationRow) -> dict[str, str | None]:
    return {
        "effect": row.effect,
        "idempotency": row.idempotency,
        "required-scope": row.required_scope,
        "account-access": "required" if row.account_access else "none required",
        "rate-limit-descriptor": row.name,
        "cost-class": row.cost_class,
        "tenant-scope": row.tenant_scope,
    }


def _sentence(aspects: dict[str, str | None]) -> str:
    return " ".join(f"{name.capitalize().replace('-', ' ')}: {value or 'none'}." for name, value in aspects.items())


def _operation(operation: str, page: str, parameters: list[Schema], description: str, **more: object) -> Schema:
    aspects = _aspects(OPERATIONS[operation])
    return {
        "operationId": operation,
        "description": f"{description} {_sentence(aspects)}",
        **{f"x-{name}": value for name, value in aspects.items()},
        "security": [{"apiKey": []}],
        "parameters": parameters,
        "responses": _responses(operation, page),
        **more,
    }


def description() -> Schema:
    """Return the OpenAPI document."""
    accounts = _operation(
        ACCOUNTS,
        "AccountPageV1",
        [_CURSOR, _LIMIT],
        "Any valid key may call this operation. It returns only the accounts that are granted to the key.",
        summary="List the accounts the API key can access",
    )
    media = _operation(
        MEDIA,
        "PublicInstagramMediaPageV1",
        [_ACCOUNT_ID, _SURFACE, _MEDIA_CURSOR, _LIMIT],
        "The key must have the required scope and access to the account. API 4.2 does not specify a 429, 500 or 503; "
        "the 429 is described here because the operation is rate-limited (API 4).",
        summary="List posts or stories of one connected account",
    )
    errors = {f"error_{row.code}": _error_schema(row) for row in ERRORS.values()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Social-media account automation (sandbox)", "version": "1"},
        "servers": [{"url": "/"}],
        "paths": {
            ACCOUNTS_PATH: {"get": accounts},
            f"{ACCOUNTS_PATH}/{{accountId}}/media": {"get": media},
        },
        "components": {
            "schemas": {**SCHEMAS, **errors},
            "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer"}},
        },
    }
