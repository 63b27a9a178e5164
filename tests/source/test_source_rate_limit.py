import math
from datetime import UTC, datetime, timedelta

from connectors.source.rate_limit import RateLimitBudget

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_hold_runs_down_and_is_never_shortened() -> None:
    wait = RateLimitBudget("account_catalog", max_wait=100)
    wait.start_cooldown(30, monotonic=1000)
    wait.start_cooldown(5, monotonic=1000)
    assert wait.due(1000) == 30
    assert wait.due(1029) == 1
    assert wait.due(1031) == 0
    assert wait.resume_after(NOW, 1010) == NOW + timedelta(seconds=20)


def test_the_hold_of_an_earlier_process_is_over() -> None:
    for until in (NOW - timedelta(days=1), None):
        assert RateLimitBudget.seeded("s", 60, until, now=NOW, monotonic=7).due(7) == 0


def test_a_hold_beyond_the_calendar_ends_with_it() -> None:
    wait = RateLimitBudget("s", max_wait=60)
    wait.start_cooldown(math.inf, monotonic=0)
    assert wait.resume_after(NOW, 0) == datetime(9999, 12, 30, tzinfo=UTC)
    wait = RateLimitBudget("s", max_wait=60)
    wait.start_cooldown(1e15, monotonic=0)
    assert wait.resume_after(NOW, 0).year == 9999
