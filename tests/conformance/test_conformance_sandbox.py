"""Whatever is requested of the sandbox, it answers as the contract allows."""

import re
from urllib.parse import urlencode
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.requests import DEMO_KEY, NO_ACCOUNT_KEY, NO_SCOPE_KEY, ONE_ACCOUNT_KEY
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


def check(operation: str, answer: Answer) -> None:
    """Check that an answer is one of the contract (API 1, 2, 5, 7)."""
    trace = answer.headers["x-correlation-id"]
    assert re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", trace)
    assert answer.headers["content-type"] == "application/json"
    if answer.status != 200:
        error, example = answer.json()["error"], ERRORS[answer.code]
        assert may_answer(operation, answer.code)
        assert (answer.status, answer.json().keys()) == (example.status, {"error"})
        assert (answer.status == 401) is (answer.headers.get("www-authenticate") == "Bearer")
        issues = error.pop("details", {"issues": []})["issues"]
        assert bool(issues) is (answer.code == "api_validation_error")
        assert len(issues) <= 32
        message = example.body["error"]["message"]
        assert error == {"code": answer.code, "message": message, "correlation_id": trace}
        return
    page = answer.json()
    assert page["next_cursor"] is None or 1 <= len(page["next_cursor"]) <= 1024
    if operation == ACCOUNTS:
        assert (page.keys(), len(page["items"]) <= 50) == ({"items", "next_cursor"}, True)
        for item in page["items"]:
            assert item.keys() == FIELDS.keys()
            assert all(re.fullmatch(pattern, item[name]) for name, pattern in FIELDS.items())


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
    @example(SANDBOX.account_id(0), [], True)  # noqa: FBT003 - as given
    def request(account_id: str | None, query: list[tuple[str, str]], is_plain: bool) -> None:  # noqa: FBT001
        operation = ACCOUNTS if account_id is None else MEDIA
        path = "/api/v1/accounts" if account_id is None else f"/api/v1/accounts/{account_id}/media"
        if is_plain:
            query = [] if account_id is None else [("surface", "posts")]
        answer = SANDBOX.raw(path, urlencode(query, errors="replace").encode(), key=key)
        check(operation, answer)
        seen.add((operation, answer.status))

    request()
    assert seen >= KEYS[key]
