"""The sandbox in this process: errors equal their literal examples; limits and faults change while it runs."""

import re
from typing import Any

import pytest

from connectors.sandbox.contract import CATALOG_SCOPE
from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.settings import RateLimit
from tests.clocks import VirtualClock
from tests.conformance.contract_examples import ERRORS
from tests.sandbox.asgi_client import Asker


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(passed=1000.0)


@pytest.fixture
def asker(clock: VirtualClock) -> Asker:
    return Asker(Sandbox(clock=clock.monotonic))


@pytest.mark.parametrize("code", ERRORS)
def test_a_fault_is_the_literal_answer(asker: Asker, code: str) -> None:
    example = ERRORS[code]
    for operation in example.operations:
        assert asker.control("POST", "faults", {"code": code, "retry_after": 30}).status == 201
        answer = asker.get() if operation == "accounts.list" else asker.media(asker.account_id())
        trace = answer.headers["x-correlation-id"]
        assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", trace)
        headers = {name.lower(): value for name, value in example.headers.items()} | {"x-correlation-id": trace}
        assert (answer.status, answer.headers | headers) == (example.status, answer.headers)
        assert answer.json() == {"error": {**example.body["error"], "correlation_id": trace}}


def test_a_cursor_is_valid_for_its_own_list_alone(asker: Asker) -> None:
    one, other = asker.account_id(0), asker.account_id(1)
    of_accounts, of_posts = (answer.json()["next_cursor"] for answer in (asker.get(limit=1), asker.media(one, limit=1)))
    assert [asker.get(cursor=of_accounts).status, asker.media(one.upper(), cursor=of_posts).status] == [200, 200]
    wrong = [
        asker.get(cursor=of_posts),
        asker.media(one, cursor=of_accounts),
        asker.media(one, "stories", cursor=of_posts),
        asker.media(other, cursor=of_posts),
    ]
    assert [answer.code for answer in wrong] == ["api_invalid_cursor"] * 4


@pytest.mark.parametrize(("elapsed", "wait"), [(0.0, 10), (7.5, 3)])
def test_waiting_for_the_returned_time_is_enough(asker: Asker, clock: VirtualClock, elapsed: float, wait: int) -> None:
    asker.control("POST", "limits", {CATALOG_SCOPE: {"requests": 3, "seconds": 10}})
    assert [asker.get().status for _ in range(3)] == [200, 200, 200]
    clock.passed += elapsed
    refused = asker.get()
    assert (refused.code, refused.headers["retry-after"]) == ("rate_limited", str(wait))
    clock.passed += wait
    assert asker.get().status == 200
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
    asker.control("POST", "faults", fault)
    answers = [asker.get(), *(asker.media(one, kind) for one in ids for kind in ("posts", "stories"))]
    assert [answer.status for answer in answers] == statuses
    left = [one["times"] for one in asker.raw("/_sandbox/faults").json()]
    assert left == ([] if fault["times"] == statuses.count(500) else [fault["times"] and fault["times"] - 2])
    assert asker.control("DELETE", "faults", None).json() == []
    assert asker.get().status == 200
