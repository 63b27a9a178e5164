from collections.abc import Callable
from typing import Literal

import pytest

from connectors.sandbox.faults.rules import Action, Rule
from connectors.sandbox.http.keys import NO_SCOPE_KEY
from connectors.sandbox.settings import RateLimit
from tests.clocks import VirtualClock
from tests.sandbox.asgi_client import Asker

Build = Callable[..., Asker]


def test_a_window_admits_a_limited_number_and_returns_the_wait(build: Build, clock: VirtualClock) -> None:
    asker = build(account_catalog=RateLimit(3, 10))
    assert [asker.get().status for _ in range(3)] == [200, 200, 200]
    clock.passed += 7.5
    refused = asker.get()
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "rate_limited", "3")
    clock.passed += 3
    assert asker.get().status == 200
    assert asker.sandbox.limiter.early_total == 0


@pytest.mark.parametrize("elapsed", [0.0, 0.1, 1.0, 9.0, 9.999])
def test_waiting_for_the_returned_time_is_always_enough(build: Build, clock: VirtualClock, elapsed: float) -> None:
    asker = build(account_catalog=RateLimit(1, 10))
    asker.get()
    clock.passed += elapsed
    wait = int(asker.get().headers["retry-after"])
    assert 1 <= wait <= 10
    clock.passed += wait
    assert asker.get().status == 200
    assert asker.sandbox.limiter.early_total == 0


def test_the_limit_belongs_to_one_scope(build: Build) -> None:
    asker = build(account_catalog=RateLimit(1, 10), selected_account=RateLimit(1, 10))
    first, second = asker.account_id(0), asker.account_id(1)
    answers = [
        asker.get(),
        asker.get(key=NO_SCOPE_KEY),
        asker.media(first),
        asker.media(second),
        asker.media(first, key="sandbox-one-account-key"),
    ]
    assert [a.status for a in answers] == [200] * 5
    again = [asker.get(), asker.media(first), asker.media(first, "stories"), asker.media(second)]
    assert [a.status for a in again] == [429] * 4


def test_early_requests_are_recorded(build: Build, clock: VirtualClock) -> None:
    asker = build(selected_account=RateLimit(1, 5))
    account_id = asker.account_id()
    asker.media(account_id)
    asker.media(account_id)
    clock.passed += 4.9
    early = asker.media(account_id)
    assert early.status == 429
    (record,) = asker.sandbox.limiter.early
    assert record.account_id == account_id
    assert record.correlation_id == early.headers["x-correlation-id"]
    assert record.allowed_from - record.arrived == pytest.approx(0.1)
    asker.get()
    assert asker.control("GET", "stats").json()["early_requests"] == 1


def test_early_requests_during_a_scripted_wait_are_recorded(asker: Asker, clock: VirtualClock) -> None:
    limited = Action("error", code="rate_limited", retry_after=7)
    asker.sandbox.faults.replace([Rule(limited, operation="accounts", times=1)])
    assert asker.get().status == 429
    clock.passed += 6
    assert asker.get().status == 200
    assert asker.sandbox.limiter.early_total == 1
    clock.passed += 1
    asker.get()
    assert asker.sandbox.limiter.early_total == 1


@pytest.mark.parametrize("operation", ["accounts", "media"])
@pytest.mark.parametrize("code", ["rate_limited", "api_new_code"])
def test_a_scripted_429_always_has_its_wait(asker: Asker, operation: str, code: str) -> None:
    asker.control("POST", "faults", [{"action": {"kind": "error", "code": code, "status": 429}, "times": 1}])
    answer = asker.get() if operation == "accounts" else asker.media(asker.account_id())
    assert (answer.status, answer.headers.get("retry-after")) == (429, "1")


def test_a_script_may_leave_the_wait_out_and_other_errors_have_none(asker: Asker) -> None:
    omitted = {"kind": "error", "code": "rate_limited", "retry_after": False}
    asker.control("POST", "faults", [{"action": omitted, "times": 1}, {"action": {"kind": "error"}}])
    answers = [asker.get(), asker.get()]
    assert [(answer.status, "retry-after" in answer.headers) for answer in answers] == [(429, False), (500, False)]


@pytest.mark.parametrize("retry_after", [False, "Fri, 31 Dec 2100 23:59:59 GMT", "soon"])
def test_a_wait_without_seconds_has_no_effect(asker: Asker, retry_after: str | Literal[False]) -> None:
    limited = Action("error", code="rate_limited", retry_after=retry_after)
    asker.sandbox.faults.replace([Rule(limited, times=1)])
    assert asker.get().headers.get("retry-after", False) == retry_after
    asker.get()
    assert asker.sandbox.limiter.early_total == 0


def test_limits_change_while_it_runs(asker: Asker) -> None:
    answer = asker.control("POST", "limits", {"account_catalog": {"requests": 1, "seconds": 60}})
    assert answer.json() == {"account_catalog": {"requests": 1, "seconds": 60}, "selected_account": None}
    assert [asker.get().status, asker.get().status] == [200, 429]
    asker.control("POST", "limits", {"account_catalog": None})
    assert asker.get().status == 200
    assert asker.control("POST", "limits", {"everything": None}).status == 400
    assert asker.control("POST", "limits", {"account_catalog": {"requests": 0, "seconds": 1}}).status == 400
    assert asker.control("POST", "limits", {"account_catalog": {"per": 1}}).status == 400
