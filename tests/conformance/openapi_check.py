"""Validates responses against the sandbox's OpenAPI description."""

import json
from copy import deepcopy
from datetime import timedelta
from functools import cache
from typing import Any

import httpx
import schemathesis
from schemathesis.checks import CHECKS
from schemathesis.core.failures import FailureGroup

from tests.conformance.contract_examples import Example
from tests.conformance.description import description

PATHS = {"accounts.list": "/api/v1/accounts", "accounts.media.list": "/api/v1/accounts/{accountId}/media"}
_URL = "https://api.example"
_HELD = [
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
]


@cache
def schema() -> schemathesis.BaseSchema:
    """Load the description with schemathesis."""
    config = schemathesis.Config.from_dict({"base-url": _URL, "cache": {"enabled": False}})
    return schemathesis.openapi.from_dict(deepcopy(description()), config=config)


def violations(operation: str, status: int, headers: dict[str, str], body: Any) -> list[str]:  # noqa: ANN401
    """Return how a response violates the description."""
    path = PATHS[operation]
    case = schema()[path]["GET"].Case(path_parameters={"accountId": "an-id"} if "{" in path else {})
    request = httpx.Request("GET", _URL + path)
    answer = httpx.Response(status, headers=headers, content=json.dumps(body).encode(), request=request)
    answer.elapsed = timedelta()
    try:
        case.validate_response(answer, checks=[one for one in CHECKS.get_by_names(_HELD) if not isinstance(one, type)])
    except FailureGroup as failed:
        return [str(one) for one in failed.exceptions]
    return []


def shown() -> set[tuple[str, int, str | None]]:
    """Return every response in the description: operation, status, and error code."""
    document = description()
    found: set[tuple[str, int, str | None]] = set()
    for operation, path in PATHS.items():
        for status, response in document["paths"][path]["get"]["responses"].items():
            message = response["content"]["application/json"]["schema"]
            codes = [one["$ref"].partition("error_")[2] for one in message.get("oneOf", [])]
            found |= {(operation, int(status), code) for code in codes or [None]}
    return found


def invalid_variants(example: Example) -> dict[str, tuple[dict[str, str], Any]]:
    """Yield invalid variants of an example: a name, the headers and the body."""
    ways: dict[str, tuple[dict[str, str], Any]] = {}
    for name in example.headers:
        ways[f"without {name}"] = ({key: value for key, value in example.headers.items() if key != name}, example.body)
    for where in _objects(example.body):
        target = _at(example.body, where)
        for key in target:
            body = deepcopy(example.body)
            del _at(body, where)[key]
            ways[f"without {'.'.join(map(str, (*where, key)))}"] = (example.headers, body)
        body = deepcopy(example.body)
        _at(body, where)["nobody_knows"] = 1
        ways[f"more in {'.'.join(map(str, where)) or 'the body'}"] = (example.headers, body)
    return ways


def _objects(value: object, *where: str | int) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        return [where, *(found for key, inner in value.items() for found in _objects(inner, *where, key))]
    if isinstance(value, list):
        return [found for index, inner in enumerate(value) for found in _objects(inner, *where, index)]
    return []


def _at(body: Any, where: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - JSON is anything
    for step in where:
        body = body[step]
    return body
