import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.source.errors import ApiError, Disposition, Failure
from connectors.source.retry import Verdict, decide

shares = st.floats(0, 1, exclude_max=True)
pure = settings(deadline=None, derandomize=True)


def error(disposition: Disposition, retry_after: float | None = None) -> ApiError:
    failure = Failure(
        operation="accounts.list", code="x", disposition=disposition, outcome="failed", message="", hint=""
    )
    return ApiError(failure, retry_after)


@pytest.mark.parametrize("disposition", [Disposition.SKIP, Disposition.RESTART, Disposition.STOP])
def test_permanent_errors_are_not_retried(disposition: Disposition) -> None:
    assert decide(error(disposition, 5), 1, lambda: 0.5) == Verdict(retries=False)


def test_a_retry_waits_a_growing_capped_share() -> None:
    delays = [decide(error(Disposition.RETRY), attempt, lambda: 1.0, tries=12) for attempt in range(1, 12)]
    assert delays == [Verdict(True, s) for s in (0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60)]  # noqa: FBT003
    assert decide(error(Disposition.RETRY), 3, lambda: 0.0) == Verdict(retries=True)


def test_tries_are_all_attempts_the_first_included() -> None:
    assert decide(error(Disposition.RETRY), 5, lambda: 0.5).retries
    assert decide(error(Disposition.RETRY), 6, lambda: 0.5) == Verdict(retries=False)
    # The Retry-After of the last failure applies to the scope's other requests.
    assert decide(error(Disposition.RETRY, 100), 6, lambda: 0.5) == Verdict(
        retries=False, delay=102.5, whole_scope=True
    )


@pytest.mark.parametrize("disposition", [Disposition.RETRY, Disposition.WAIT])
@pure
@given(st.floats(0, 1e9), shares)
def test_an_announced_wait_is_never_shortened_and_holds_the_scope(
    disposition: Disposition, announced: float, share: float
) -> None:
    verdict = decide(error(disposition, announced), 1, lambda: share)
    assert (verdict.retries, verdict.whole_scope) == (True, True)
    least = max(1.0, announced)
    assert least <= verdict.delay <= least + min(least / 10, 5) + 1e-6


def test_a_rate_limit_without_a_number_waits_longer_each_time() -> None:
    delays = [decide(error(Disposition.WAIT), attempt, lambda: 0.0) for attempt in (1, 2, 3, 7, 9999)]
    assert delays == [Verdict(retries=True, delay=s, whole_scope=True) for s in (1, 2, 4, 60, 60)]


def test_waits_are_not_counted_and_an_endless_one_stays_endless() -> None:
    assert decide(error(Disposition.WAIT, 3), 10**6, lambda: 0.5).retries
    assert decide(error(Disposition.WAIT, float("inf")), 1, lambda: 0.0) == Verdict(
        retries=True, delay=float("inf"), whole_scope=True
    )
