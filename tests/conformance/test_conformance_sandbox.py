"""Whatever is requested of the sandbox, it answers as the contract allows."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.sandbox.http.access import DEMO_KEY, NO_ACCOUNT_KEY, NO_SCOPE_KEY, ONE_ACCOUNT_KEY
from connectors.sandbox.http.app import Sandbox
from tests.conformance.contract_examples import ACCOUNTS, ERRORS, MEDIA, may_answer
from tests.sandbox.asgi_client import Answer, Asker

SANDBOX = Asker(Sandbox())
FIELDS = {
    "id": r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "ig_username": r"[A-Za-z0-9._]{1,30}",
    "public_id": r"[A-Za-z0-9]{12,16}",
    "status": "active|token_expired",
}

# Each key, and the statuses that it must have met, so that the test is not empty.
KEYS = {
    DEMO_KEY: {(ACCOUNTS, 200), (ACCOUNTS, 422), (MEDIA, 200), (MEDIA, 422), (MEDIA, 403)},
    ONE_ACCOUNT_KEY: {(ACCOUNTS, 200), (MEDIA, 200), (MEDIA, 403)},
    NO_ACCOUNT_KEY: {(ACCOUNTS, 200), (ACCOUNTS, 422), (MEDIA, 403)},
    NO_SCOPE_KEY: {(ACCOUNTS, 200), (MEDIA, 403)},
    "a-key-that-is-none": {(ACCOUNTS, 401), (MEDIA, 401)},
}


def faults(operation: str, answer: Answer) -> Iterator[str]:
    """Yield how an answer violates the contract (API 1, 2, 5, 7)."""
    if not re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", answer.headers.get("x-correlation-id", "")):
        yield "its X-Correlation-ID"
    if answer.headers["content-type"] != "application/json":
        yield "its type"
    yield from (faults_of_page if answer.status == 200 else faults_of_error)(operation, answer)


def faults_of_error(operation: str, answer: Answer) -> Iterator[str]:
    error: dict[str, Any] = answer.json()["error"]
    example = ERRORS.get(error["code"])
    if example is None or not may_answer(operation, error["code"]) or answer.status != example.status:
        yield f"{answer.status} {error['code']}"
        return
    if (answer.status == 401) is not (answer.headers.get("www-authenticate") == "Bearer"):
        yield "its WWW-Authenticate"
    if answer.json().keys() != {"error"} or error.pop("correlation_id") != answer.headers["x-correlation-id"]:
        yield "its envelope, or correlation_id"
    issues = error.pop("details", {"issues": []})["issues"]
    if bool(issues) is not (error["code"] == "api_validation_error") or len(issues) > 32:
        yield f"the issues {issues}"
    if error != {"code": error["code"], "message": example.body["error"]["message"]}:
        yield f"the error {error}"


def faults_of_page(operation: str, answer: Answer) -> Iterator[str]:
    page: dict[str, Any] = answer.json()
    if page["next_cursor"] is not None and not 1 <= len(page["next_cursor"]) <= 1024:
        yield f"the cursor {page['next_cursor']}"
    if operation == MEDIA:
        return
    if page.keys() != {"items", "next_cursor"} or len(page["items"]) > 50:
        yield f"the page {page.keys()}"
    for item in page["items"]:
        UUID(item["id"])
        if item.keys() != FIELDS.keys() or not all(re.fullmatch(FIELDS[name], item[name]) for name in FIELDS):
            yield f"the account {item}"


def cursors() -> list[str]:
    """Return real cursors, one of each list."""
    first = SANDBOX.account_id()
    answers = [SANDBOX.get(limit=3), SANDBOX.media(first, limit=3), SANDBOX.media(first, "stories", limit=1)]
    return [str(answer.json()["next_cursor"]) for answer in answers]


NAMES = st.sampled_from(["cursor", "limit", "surface", "surface", "Limit", "x", ""])
VALUES = st.one_of(
    st.sampled_from(["posts", "posts", "stories", "0", "1", "50", "51", "-1", "2.5", "٣", "", "c" * 1025, *cursors()]),
    st.text(max_size=9),
)
PLACES = st.one_of(
    st.none(), st.sampled_from([SANDBOX.account_id(0), SANDBOX.account_id(1).upper(), "x", str(UUID(int=7))])
)


@pytest.mark.parametrize("key", KEYS)
def test_every_answer_is_one_of_the_contract(key: str) -> None:
    seen: set[tuple[str, int]] = set()

    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(PLACES, st.lists(st.tuples(NAMES, VALUES), max_size=4), st.booleans())
    def request(account_id: str | None, query: list[tuple[str, str]], is_plain: bool) -> None:  # noqa: FBT001
        operation = ACCOUNTS if account_id is None else MEDIA
        path = "/api/v1/accounts" if account_id is None else f"/api/v1/accounts/{account_id}/media"
        if is_plain:
            query = [] if account_id is None else [("surface", "posts")]
        answer = SANDBOX.raw(path, urlencode(query, errors="replace").encode(), key=key)
        assert list(faults(operation, answer)) == []
        seen.add((operation, answer.status))

    request()
    assert seen >= KEYS[key]


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "OPTIONS", "PATCH", "TRACE", "QUERY"])
def test_other_methods_are_refused_with_an_envelope(method: str) -> None:
    answer = SANDBOX.raw("/api/v1/accounts", method=method)
    assert (answer.code, list(faults(ACCOUNTS, answer))) == ("api_invalid_request_url", [])


def test_what_the_check_finds() -> None:
    good = SANDBOX.get(limit=1)
    for wrong in (
        good.body.replace(b'"active"', b'"paused"'),
        good.body.replace(b'"public_id"', b'"publicId"'),
        json.dumps({**good.json(), "next_cursor": "c" * 1025}).encode(),
    ):
        assert list(faults(ACCOUNTS, Answer(200, good.headers, wrong)))
    bad = SANDBOX.get(limit=0)
    assert list(faults(ACCOUNTS, Answer(400, bad.headers, bad.body)))
    assert list(faults(ACCOUNTS, Answer(422, bad.headers, bad.body.replace(b"page limit", b"page size"))))
