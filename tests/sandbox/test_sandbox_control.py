"""What can be changed while the sandbox runs: days, limits and faults; and its keys."""

from collections.abc import Callable
from typing import Any

import pytest

from connectors.sandbox.http.access import DEMO_KEY, NO_ACCOUNT_KEY, NO_SCOPE_KEY, ONE_ACCOUNT_KEY
from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.settings import RateLimit
from tests.clocks import VirtualClock
from tests.sandbox.asgi_client import Asker

Build = Callable[..., Asker]


def test_days(asker: Asker) -> None:
    assert asker.control("GET", "day").json() == {"day": 0}
    assert asker.control("POST", "day").json() == {"day": 1}
    assert asker.control("POST", "day", {"advance": 3}).json() == {"day": 4}
    assert asker.control("POST", "day", {"day": 2}).json() == {"day": 2}
    assert asker.sandbox.day == 2


@pytest.mark.parametrize(("elapsed", "wait"), [(0.0, 10), (0.1, 10), (7.5, 3), (9.999, 1)])
def test_waiting_for_the_returned_time_is_enough(build: Build, clock: VirtualClock, elapsed: float, wait: int) -> None:
    asker = build(account_catalog=RateLimit(3, 10))
    assert [asker.get().status for _ in range(3)] == [200, 200, 200]
    clock.passed += elapsed
    refused = asker.get()
    assert (refused.code, refused.headers["retry-after"]) == ("rate_limited", str(wait))
    clock.passed += wait
    assert asker.get().status == 200


def test_a_limit_belongs_to_one_scope(build: Build) -> None:
    asker = build(account_catalog=RateLimit(1, 10), selected_account=RateLimit(1, 10))
    first, second = asker.account_id(0), asker.account_id(1)
    answers = [
        asker.get(),
        asker.get(key=NO_SCOPE_KEY),
        asker.media(first),
        asker.media(second),
        asker.media(first, key=ONE_ACCOUNT_KEY),
    ]
    assert [answer.status for answer in answers] == [200] * 5
    again = [asker.get(), asker.media(first), asker.media(first, "stories"), asker.media(second)]
    assert [answer.status for answer in again] == [429] * 4


def test_limits_change_while_it_runs(asker: Asker) -> None:
    answer = asker.control("POST", "limits", {"account_catalog": {"requests": 1, "seconds": 60}})
    assert answer.json() == {"account_catalog": {"requests": 1, "seconds": 60}, "selected_account": None}
    asker.control("POST", "limits", {"selected_account": {"requests": 9, "seconds": 1}})
    assert [asker.get().status, asker.get().status] == [200, 429]
    asker.control("POST", "limits", {"account_catalog": None})
    assert asker.get().status == 200


@pytest.mark.parametrize(
    ("fault", "statuses"),
    [
        ({}, [500, 200, 200, 200, 200]),
        ({"times": 2}, [500, 500, 200, 200, 200]),
        ({"times": None}, [500, 500, 500, 500, 500]),
        ({"operation": "accounts", "times": None}, [500, 200, 200, 200, 200]),
        ({"operation": "media"}, [200, 500, 200, 200, 200]),
        ({"surface": "stories", "times": 3}, [200, 200, 500, 200, 500]),
        ({"account_id": 1, "times": None}, [200, 200, 200, 500, 500]),
    ],
)
def test_a_fault_affects_the_next_requests_that_match(asker: Asker, fault: dict[str, Any], statuses: list[int]) -> None:
    first, second = asker.account_id(0), asker.account_id(1)
    if "account_id" in fault:
        fault = {**fault, "account_id": second}
    asker.control("POST", "faults", {"code": "api_internal_error", **fault})
    answers = [asker.get(), *(asker.media(one, kind) for one in (first, second) for kind in ("posts", "stories"))]
    assert [answer.status for answer in answers] == statuses
    left = asker.control("GET", "faults").json()
    asked = fault.get("times", 1)
    assert [one["times"] for one in left] == ([] if asked == statuses.count(500) else [asked and asked - 2])
    assert asker.control("DELETE", "faults").json() == []
    assert asker.get().status == 200


def test_a_fault_may_delay_and_comes_after_the_checks() -> None:
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    asker = Asker(Sandbox(sleep=sleep))
    asker.control("POST", "faults", {"delay": 2.5})
    asker.control("POST", "faults", {"delay": 1, "code": "rate_limited", "retry_after": 7})
    assert [asker.get(key=None).status, asker.get(limit=0).status] == [401, 422]
    assert [asker.get().status, asker.get().headers["retry-after"], slept] == [200, "7", [2.5, 1.0]]


@pytest.mark.parametrize(
    ("key", "accounts", "codes"),
    [
        (DEMO_KEY, 40, ["", ""]),
        (NO_SCOPE_KEY, 40, ["api_scope_denied", "api_scope_denied"]),
        (ONE_ACCOUNT_KEY, 1, ["", "api_account_not_granted"]),
        (NO_ACCOUNT_KEY, 0, ["api_account_not_granted", "api_account_not_granted"]),
    ],
)
def test_a_key_reaches_its_accounts(asker: Asker, key: str, accounts: int, codes: list[str]) -> None:
    assert len(asker.scan(key=key)) == accounts
    assert [asker.media(asker.account_id(position), key=key).code for position in (0, 2)] == codes


@pytest.mark.parametrize(
    ("path", "wrong", "why"),
    [
        ("day", {"day": -1}, "greater than or equal to 0"),
        ("limits", {"everything": None}, "not permitted"),
        ("limits", {"account_catalog": {"requests": 0, "seconds": 1}}, "greater than or equal to 1"),
        ("faults", {}, "a fault has a delay, or one of these codes: api_invalid_content_length, "),
        ("faults", {"code": "api_brand_new"}, "a fault has a delay, or one of these codes"),
        ("faults", {"delay": 1, "times": 0}, "greater than or equal to 1"),
    ],
)
def test_invalid_changes_are_refused(asker: Asker, path: str, wrong: object, why: str) -> None:
    before = asker.control("GET", path).body
    answer = asker.control("POST", path, wrong)
    assert answer.status == 422
    assert why in str(answer.json()["detail"])
    assert asker.control("GET", path).body == before
