"""What follows a failure: another try, when, with which limit, a wait of the whole scope, or an outage."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.source.errors import RESTART, RETRY, RULES, SKIP, STOP, WAIT, ApiError, Deferred, Disposition
from connectors.source.messages import ACCOUNTS
from connectors.source.waits import TRIES, Attempts, Outage, RateLimitBudget, Verdict
from tests.clocks import START, VirtualClock
from tests.source.test_source_responses import refused as refusal

TIMEOUT = ApiError(ACCOUNTS, "timeout", "")
EXAMPLE = {rule.disposition: code for code, rule in RULES.items()}


def error(disposition: Disposition, retry_after: float | None = None) -> ApiError:
    return ApiError(ACCOUNTS, EXAMPLE[disposition], "", retry_after=retry_after)


@pytest.mark.parametrize(
    ("kind", "share", "delays"),
    [
        (RETRY, 1.0, [0.5, 1, 2, 4, 8]),
        (WAIT, 0.0, [1, 2, 4, 8, 16, 32, *[60] * 2000]),
        (WAIT, 1.0, [1.1, 2.2, 4.4, 8.8, 17.6, 35.2, 65]),
    ],
)
def test_delays_grow_and_are_capped(kind: Disposition, share: float, delays: list[float]) -> None:
    attempts = Attempts(50)
    verdicts = [attempts.decide(error(kind), lambda: share, of_key=False) for _ in delays]
    assert [verdict.delay for verdict in verdicts] == pytest.approx(delays)
    assert {(verdict.retries, verdict.whole_scope) for verdict in verdicts} == {(True, kind is WAIT)}


def test_tries_are_all_attempts_and_permanent_errors_are_not_retried() -> None:
    for disposition in (SKIP, RESTART, STOP):
        assert Attempts(50).decide(error(disposition, 5), lambda: 0.5, of_key=False) == Verdict(retries=False)
    attempts = Attempts(50)
    tried = [attempts.decide(TIMEOUT, lambda: 0.0, of_key=False).retries for _ in range(TRIES)]
    assert tried == [True] * 5 + [False]
    # The Retry-After of the last failure applies to the scope's other requests.
    last = attempts.decide(error(RETRY, 100), lambda: 0.5, of_key=False)
    assert last == Verdict(retries=False, delay=102.5, whole_scope=True)
    # Neither a wait nor a limit of the key is a try.
    for _ in range(9):
        assert attempts.decide(error(WAIT, 3), lambda: 0.0, of_key=False).retries
        assert attempts.decide(refusal(503), lambda: 0.0, of_key=True) == Verdict(True, 1.0, whole_scope=True)  # noqa: FBT003
        assert attempts.decide(refusal(503, retry_after="7"), lambda: 0.0, of_key=True).delay == 7


@settings(deadline=None, derandomize=True)
@given(st.booleans(), st.floats(0, 1e9), st.floats(0, 1, exclude_max=True))
def test_an_announced_wait_is_never_shortened_and_holds_the_scope(of_key: bool, wait: float, share: float) -> None:  # noqa: FBT001
    verdict = Attempts(50).decide(error(RETRY, wait), lambda: share, of_key=of_key)
    assert (verdict.retries, verdict.whole_scope) == (True, True)
    least = max(1.0, wait)
    assert least <= verdict.delay <= least + min(least / 10, 5) + 1e-6


def test_less_is_asked_for_before_giving_up() -> None:
    for failures, begun, limits in (
        ([refusal(500)] * 5, 50, [50, 25, 12, 6, 5]),
        ([refusal(504), TIMEOUT, TIMEOUT, None, refusal(500)], 50, [50, 25, 12, 12, 12]),
        ([ApiError(ACCOUNTS, "body_too_large_response", "", status=200)] * 4, 20, [20, 10, 5, 5]),
        # It was not the size of the page.
        ([ApiError(ACCOUNTS, "connection_failed", "")] * 5, 50, [50] * 5),
        ([refusal(401), refusal(403), refusal(503), refusal(302), refusal(404)], 50, [50] * 5),
    ):
        attempts, found = Attempts(begun), []
        for failed in failures:
            if failed is None:
                attempts.failures.clear()
            else:
                attempts.decide(failed, lambda: 0.0, of_key=False)
            found.append(attempts.limit)
        assert found == limits
        assert (attempts.reduced_by is None) == (limits[-1] == begun)


@pytest.mark.anyio
async def test_a_cooldown_is_waited_for_within_the_budget_and_never_shortened() -> None:
    clock, slept = VirtualClock(), list[float]()

    async def sleep(seconds: float) -> None:
        # It may end early.
        slept.append(seconds)
        clock.passed += seconds if len(slept) > 1 else seconds / 2

    budget = RateLimitBudget("s", max_wait=60)
    for seconds in (44, 5):
        budget.start_cooldown(seconds, clock.monotonic())
    await budget.wait(clock, sleep)
    assert (slept, budget.waited) == ([44, 22], 44)
    budget.start_cooldown(17, clock.monotonic(), TIMEOUT)
    with pytest.raises(Deferred) as caught:
        await budget.wait(clock, sleep)
    assert caught.value.error == TIMEOUT
    assert caught.value.resume_after == START + timedelta(seconds=44 + 17)


ANSWERS = {
    "page": None,
    "away": ApiError(ACCOUNTS, "connection_failed", "refused"),
    "limited": ApiError(ACCOUNTS, "rate_limiter_unavailable", "wait", retry_after=5),
    "broken": ApiError(ACCOUNTS, "malformed_page", "no list", status=200),
    "denied": ApiError(ACCOUNTS, "api_forbidden", "no grant", status=403),
}


def test_an_outage_is_nothing_but_passing_errors_in_several_scopes_and_its_pauses_grow_to_a_minute() -> None:
    # The answers, each with its scope and second.
    away = "away a 2, away b 2, away c 2"
    for answers, is_on in {
        f"{away}, away d 2": True,
        # For too short a time, and one account alone.
        "away a 0.5, away b 0.5, away c 0.5, away d 0.5": False,
        "away a 1, away a 2, away a 3, away a 4, away a 5": False,
        f"{away}, denied d 2, away d 2": False,
        "limited a 2, limited b 2, limited c 2, limited d 2": False,
        "broken a 2, broken b 2, broken c 2, broken d 2": False,
        f"{away}, away d 2, page e 3": False,
    }.items():
        outage = Outage(answered_at=0.0)
        for each in answers.split(", "):
            answer, scope, at = each.split()
            outage = outage.observe(scope, ANSWERS[answer], float(at))
        assert outage.is_on is is_on, answers
    outage, pauses = Outage(answered_at=0.0), list[float]()
    for scope in "abcd":
        outage = outage.observe(scope, ANSWERS["away"], 2.0)
    # What was sent before does not count.
    assert outage.observe("e", ANSWERS["away"], 2.5) == outage
    for _ in range(8):
        pauses.append(outage.pause)
        outage = outage.observe("a", ANSWERS["away"], outage.next_at)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
