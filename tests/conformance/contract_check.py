"""Checks one exchange against the contract: status, headers, envelope and page."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.conformance.contract_examples import ACCOUNTS, ERRORS, MEDIA, may_answer
from tests.conformance.expected_responses import PAGE, Asked, Contract

_CORRELATION_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_DEFAULT_LIMIT = 25


@dataclass(frozen=True)
class Answered:
    """A response; header names are lower-case, each with all its values."""

    status: int
    headers: dict[str, list[str]]
    body: bytes


def faults(contract: Contract, asked: Asked, answered: Answered) -> Iterator[str]:
    """Return how a response violates the contract."""
    traced = answered.headers.get("x-correlation-id", [])
    if len(traced) != 1 or not _CORRELATION_ID.fullmatch(traced[0]):
        yield f"X-Correlation-ID is {traced}"
    if answered.headers.get("content-type") != ["application/json"]:
        yield f"Content-Type is {answered.headers.get('content-type')}"
    document = json.loads(answered.body)
    code = PAGE if answered.status == 200 else document["error"]["code"]
    allowed = contract.allowed(asked)
    if code not in allowed:
        yield f"{code or 'a page'}, and not one of {sorted(allowed)}"
    if code == PAGE:
        yield from _of_page(contract, asked, document)
    else:
        yield from _of_refusal(asked, answered, document, traced)


def _of_page(contract: Contract, asked: Asked, page: dict[str, object]) -> Iterator[str]:
    items, cursor = page["items"], page["next_cursor"]
    assert isinstance(items, list)
    assert isinstance(cursor, str | None)
    limit = int(dict(asked.pairs).get("limit", _DEFAULT_LIMIT))
    if len(items) > limit:
        yield f"{len(items)} items, and {limit} were asked for"
    if asked.operation == ACCOUNTS and not {item["id"] for item in items} <= contract.grant.accounts:
        yield "accounts that the key does not reach"
    contract.issue(asked, cursor)


def _of_refusal(
    asked: Asked, answered: Answered, document: dict[str, dict[str, object]], traced: list[str]
) -> Iterator[str]:
    error = document["error"]
    code = str(error["code"])
    literal = ERRORS[code]
    if answered.status != literal.status:
        yield f"{code} with {answered.status}"
    if asked.operation in (ACCOUNTS, MEDIA) and not may_answer(asked.operation, code):
        yield f"{code} is not shown for {asked.operation}"
    if [error.get("correlation_id")] != traced:
        yield "the envelope and the header tell different correlation ids"
    own = {"code", "message"} if code != "api_validation_error" else {"code", "message", "details"}
    if document.keys() != {"error"} or error.keys() - {"correlation_id"} != own:
        yield f"the envelope's fields are {sorted(error)}"
    if error["message"] != literal.body["error"]["message"]:
        yield f"{code} says {error['message']!r}"
    waits = answered.headers.get("retry-after", [])
    if len(waits) != (answered.status == 429) or not all(re.fullmatch("[1-9][0-9]*", wait) for wait in waits):
        yield f"Retry-After is {waits}"
    if answered.headers.get("www-authenticate") != (["Bearer"] if answered.status == 401 else None):
        yield f"WWW-Authenticate is {answered.headers.get('www-authenticate')}"
