"""Cron expressions, computed without a clock: their times, and the gap between runs of stories."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from prefect.server.schemas.schedules import CronSchedule

from flows.config.settings import check_cron
from flows.reporting.schedules import fires, gap_warning

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BERLIN = "Europe/Berlin"


RIGHT = ("15 */6 * * *", "0 3 * * mon-FRI", "0 0 29 2 *", "*/15 1,2 * JUL 7", "1-11,11 10-20/3 */2 * 1-5/2")
INVALID = ("", "every day", "* * * * * *", "60 * * * *", "0 0 30 2 *", "@daily")


def test_a_cron_expression_is_kept_as_it_came_or_refused() -> None:
    assert tuple(map(check_cron, RIGHT)) == RIGHT
    for expression in INVALID:
        with pytest.raises(ValueError, match="it is not a valid cron expression; use five fields, such as 15 2 "):
            check_cron(expression)


def test_the_times_of_runs_are_shown_in_their_zone() -> None:
    first, second = islice(fires("15 2 * * *", BERLIN, NOW), 2)
    assert first.isoformat() == "2026-03-02T02:15:00+01:00"
    assert second - first == timedelta(days=1)


@pytest.mark.parametrize(
    ("nightly", "stories", "zone", "gap"),
    [
        ("15 2 * * *", "15 */6 * * *", BERLIN, None),
        ("15 2 * * *", "15 2 * * *", "UTC", None),
        ("15 2 * * *", "15 2 * * *", BERLIN, "1 d 1 h"),
        ("15 2 * * 1-5", "15 2 1 * *", BERLIN, "3 d 1 h"),
        ("0 0 1 1 *", "0 0 1 1 *", BERLIN, "305 d 11 h"),
        ("* * * * *", "15 2 * * *", BERLIN, None),
    ],
)
def test_schedules_that_together_can_miss_stories_cause_a_warning(
    nightly: str, stories: str, zone: str, gap: str | None
) -> None:
    warning = gap_warning(nightly, stories, zone, NOW)
    assert (warning is None) == (gap is None)
    assert warning is None or f"up to {gap}. Fix: set GRAMHOUSE_STORIES" in warning


@pytest.mark.anyio
@pytest.mark.parametrize("expression", ["15 2 * * *", "0 3 * * MON-FRI"])
@pytest.mark.parametrize("begin", [datetime(2026, 3, 28, 1, tzinfo=UTC), datetime(2026, 10, 24, 1, tzinfo=UTC)])
async def test_our_times_equal_those_of_prefect_except_in_a_skipped_hour(expression: str, begin: datetime) -> None:
    theirs = await CronSchedule(cron=expression, timezone=BERLIN).get_dates(8, begin)
    ours = islice(fires(expression, BERLIN, begin), 8)
    apart = [abs(at.timestamp() - other.timestamp()) for at, other in zip(ours, theirs, strict=True)]
    assert max(apart) <= 3600
    assert sum(map(bool, apart)) <= 1
