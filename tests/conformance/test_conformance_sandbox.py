"""The sandbox: whatever is requested, it answers as the contract allows; its limits and faults change while it runs."""

import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import httpx
import pytest
from httpx2 import Response
from hypothesis import example, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from connectors.sandbox.contract import CATALOG_SCOPE
from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.requests import DEMO_KEY, NO_ACCOUNT_KEY, NO_SCOPE_KEY, ONE_ACCOUNT_KEY
from connectors.sandbox.settings import RateLimit
from tests.clocks import VirtualClock
from tests.conformance.contract_examples import ACCOUNTS, ERRORS, MEDIA, may_answer
from tests.operator import COMMAND_LINE, TIMEOUT, killed_on_exit

PATH = "/api/v1/accounts"


class Asker(TestClient):
    """Asks a sandbox in this process."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - as Sandbox
        self.sandbox = Sandbox(**given)
        super().__init__(self.sandbox, headers={"Authorization": f"Bearer {DEMO_KEY}"})

    def accounts(self, **query: object) -> Response:
        return self.get(f"{PATH}?{urlencode(query)}")

    def media(self, account_id: str, surface: str = "posts", **query: object) -> Response:
        return self.get(f"{PATH}/{account_id}/media?{urlencode({'surface': surface, **query})}")

    def account_id(self, position: int = 0) -> str:
        return self.sandbox.catalogue.draw.account_id(position)


def code(answer: Response) -> str:
    """Return the error code; empty for a page."""
    return "" if answer.status_code == 200 else str(answer.json()["error"]["code"])


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(passed=1000.0)


@pytest.fixture
def asker(clock: VirtualClock) -> Asker:
    return Asker(clock=clock.monotonic)


SANDBOX = Asker()
TRACE = re.compile("[0-9A-HJKMNP-TV-Z]{26}")
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


def check(operation: str, answer: Response) -> None:
    """Check that an answer is one of the contract (API 1, 2, 5, 7)."""
    trace = answer.headers["x-correlation-id"]
    assert (TRACE.fullmatch(trace) is not None, answer.headers["content-type"]) == (True, "application/json")
    if answer.status_code != 200:
        error, literal = answer.json()["error"], ERRORS[code(answer)]
        assert may_answer(operation, code(answer))
        assert (answer.status_code, answer.json().keys()) == (literal.status, {"error"})
        assert (answer.status_code == 401) is (answer.headers.get("www-authenticate") == "Bearer")
        issues = error.pop("details", {"issues": []})["issues"]
        assert (bool(issues), len(issues) <= 32) == (code(answer) == "api_validation_error", True)
        message = literal.body["error"]["message"]
        assert error == {"code": code(answer), "message": message, "correlation_id": trace}
        return
    page = answer.json()
    assert page["next_cursor"] is None or 1 <= len(page["next_cursor"]) <= 1024
    if operation == ACCOUNTS:
        assert (page.keys(), len(page["items"]) <= 50) == ({"items", "next_cursor"}, True)
        for item in page["items"]:
            assert item.keys() == FIELDS.keys()
            assert all(re.fullmatch(pattern, item[name]) for name, pattern in FIELDS.items())


FIRST = SANDBOX.account_id()
PAGES = SANDBOX.accounts(limit=3), SANDBOX.media(FIRST, limit=3), SANDBOX.media(FIRST, "stories", limit=1)
CURSORS = [str(page.json()["next_cursor"]) for page in PAGES]
NAMES = st.sampled_from(["cursor", "limit", "surface", "surface", "Limit", "x", ""])
VALUES = st.one_of(
    st.sampled_from(["posts", "posts", "stories", "0", "1", "50", "51", "-1", "2.5", "٣", "", "c" * 1025, *CURSORS]),
    st.text(max_size=9),
)
PLACES = st.sampled_from([None, FIRST, SANDBOX.account_id(1).upper(), "x", str(UUID(int=7))])


@pytest.mark.parametrize("key", KEYS)
def test_every_answer_is_one_of_the_contract(key: str) -> None:
    seen: set[tuple[str, int]] = set()

    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(PLACES, st.lists(st.tuples(NAMES, VALUES), max_size=4), st.booleans())
    @example(FIRST, [], True)  # noqa: FBT003 - as given
    def request(account_id: str | None, query: list[tuple[str, str]], is_plain: bool) -> None:  # noqa: FBT001
        operation, path = (ACCOUNTS, PATH) if account_id is None else (MEDIA, f"{PATH}/{account_id}/media")
        if is_plain:
            query = [] if account_id is None else [("surface", "posts")]
        headers = {"Authorization": f"Bearer {key}"}
        answer = SANDBOX.get(f"{path}?{urlencode(query, errors='replace')}", headers=headers)
        check(operation, answer)
        seen.add((operation, answer.status_code))

    request()
    assert seen >= KEYS[key]


@pytest.mark.parametrize("name", ERRORS)
def test_a_fault_is_the_literal_answer(asker: Asker, name: str) -> None:
    literal = ERRORS[name]
    for operation in literal.operations:
        assert asker.post("/_sandbox/faults", json={"code": name, "retry_after": 30}).status_code == 201
        answer = asker.accounts() if operation == ACCOUNTS else asker.media(asker.account_id())
        trace = answer.headers["x-correlation-id"]
        headers = {name.lower(): value for name, value in literal.headers.items()} | {"x-correlation-id": trace}
        assert (answer.status_code, {**answer.headers, **headers}) == (literal.status, {**answer.headers})
        assert answer.json() == {"error": {**literal.body["error"], "correlation_id": trace}}


def test_a_cursor_is_valid_for_its_own_list_alone(asker: Asker) -> None:
    one, other = asker.account_id(0), asker.account_id(1)
    of_accounts, of_posts = (
        answer.json()["next_cursor"] for answer in (asker.accounts(limit=1), asker.media(one, limit=1))
    )
    assert code(asker.accounts(cursor=of_accounts)) == code(asker.media(one.upper(), cursor=of_posts)) == ""
    wrong = [
        asker.accounts(cursor=of_posts),
        asker.media(one, cursor=of_accounts),
        asker.media(one, "stories", cursor=of_posts),
        asker.media(other, cursor=of_posts),
    ]
    assert [code(answer) for answer in wrong] == ["api_invalid_cursor"] * 4


@pytest.mark.parametrize(("elapsed", "wait"), [(0.0, 10), (7.5, 3)])
def test_waiting_for_the_returned_time_is_enough(asker: Asker, clock: VirtualClock, elapsed: float, wait: int) -> None:
    asker.post("/_sandbox/limits", json={CATALOG_SCOPE: {"requests": 3, "seconds": 10}})
    assert [code(asker.accounts()) for _ in range(3)] == ["", "", ""]
    clock.passed += elapsed
    refused = asker.accounts()
    assert (code(refused), refused.headers["retry-after"]) == ("rate_limited", str(wait))
    clock.passed += wait
    assert code(asker.accounts()) == ""
    assert asker.sandbox.limiter.limits == {CATALOG_SCOPE: RateLimit(3, 10), "selected_account": None}


@pytest.mark.parametrize(
    ("fault", "statuses"),
    [
        ({}, [500, 200, 200, 200, 200]),
        ({"times": 2}, [500, 500, 200, 200, 200]),
        ({"operation": "accounts", "times": None}, [500, 200, 200, 200, 200]),
        ({"surface": "stories", "times": 3}, [200, 200, 500, 200, 500]),
        ({"account_id": 1, "times": None}, [200, 200, 200, 500, 500]),
    ],
)
def test_a_fault_affects_the_next_requests_that_match(asker: Asker, fault: dict[str, Any], statuses: list[int]) -> None:
    ids = [asker.account_id(position) for position in (0, 1)]
    fault = {"code": "api_internal_error", "times": 1, **fault}
    if "account_id" in fault:
        fault["account_id"] = ids[1]
    asker.post("/_sandbox/faults", json=fault)
    answers = [asker.accounts(), *(asker.media(one, kind) for one in ids for kind in ("posts", "stories"))]
    assert [answer.status_code for answer in answers] == statuses
    left = [one["times"] for one in asker.get("/_sandbox/faults").json()]
    assert left == ([] if fault["times"] == statuses.count(500) else [fault["times"] and fault["times"] - 2])
    assert asker.delete("/_sandbox/faults").json() == []
    assert code(asker.accounts()) == ""


@pytest.mark.e2e
def test_the_command_prints_its_settings_and_a_signal_ends_it() -> None:
    command, pipe = ("-W", "error", *COMMAND_LINE, "sandbox", "--port", "0", "--day", "2"), subprocess.PIPE
    with killed_on_exit(subprocess.Popen([sys.executable, *command], stdout=pipe, stderr=pipe, text=True)) as process:
        assert process.stdout is not None
        first = process.stdout.readline().rstrip("\n")
        url = first.removeprefix("export GRAMHOUSE_BASE_URL=").removesuffix(" GRAMHOUSE_API_KEY=sandbox-demo-key")
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {DEMO_KEY}"}) as client:
            listed = client.get(PATH).json()["items"]
            assert client.get("/_sandbox/day").json() == {"day": 2}
            media = client.get(f"{PATH}/{listed[0]['id']}/media?surface=posts").json()["items"]
        newest = datetime.fromisoformat(media[0]["timestamp"])
        assert 0 < (datetime.now(UTC) - newest).total_seconds() < 8 * 86_400
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, output, "Traceback" in errors) == (0, "", False)
