"""Cron expressions, computed without a clock: their times, and the interval between runs of stories."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from prefect.server.schemas.schedules import CronSchedule

from flows.config.settings import check_cron
from flows.reporting.schedules import Schedule, fires, gap_warning, stories_gap

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    "expression",
    [
        "* * * * *",
        "15 2 * * *",
        "15 */6 * * *",
        "0 3 * * mon-FRI",
        "0 0 29 2 *",
        "*/15 1,2 * JUL 7",
        "0 4-8/2 1 * *",
        "15 2 1-7 * mon",
        "15 2 */2 * *",
        "1-11,11 10-20/3 * * 1-5/2",
    ],
)
def test_a_cron_expression_is_kept_as_it_came(expression: str) -> None:
    assert check_cron(expression) == expression


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "every day",
        "* * * * * *",
        "60 * * * *",
        "0 0 30 2 *",
        "@daily",
        "0 0 * * 1#2",
        "15 2 * * ?",
    ],
)
def test_invalid_and_ambiguous_cron_expressions_are_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="it is not a valid cron expression; use five fields, such as 15 2 "):
        check_cron(expression)


@pytest.mark.parametrize(
    ("expression", "ambiguous"),
    [
        ("15 2 * * 1/2", "1/2"),
        ("5,10/15 2 * * *", "10/15"),
        ("15 2 * jan/3 *", "jan/3"),
        ("15 2 * * Mon-MON", "Mon-MON"),
        ("15 2 * 04-4/2 *", "04-4"),
    ],
)
def test_steps_and_ranges_that_prefect_reads_differently_are_refused(expression: str, ambiguous: str) -> None:
    with pytest.raises(ValueError, match=f"schedulers read {ambiguous} differently; list the numbers, such as 1,3,5"):
        check_cron(expression)


@pytest.mark.parametrize("expression", ["15 2 */2 * 1", "15 2 1 * */2", "15 2 7,* * 5", "15 2 */2 * */2"])
def test_days_that_prefect_combines_differently_are_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="its day of the month and its weekday differently; set one of them to "):
        check_cron(expression)


@pytest.mark.parametrize(
    ("begin", "hours"),
    [(NOW, 24), (datetime(2026, 10, 24, 12, tzinfo=UTC), 25), (datetime(2026, 3, 28, 12, tzinfo=UTC), 23)],
)
def test_an_interval_includes_clock_changes(begin: datetime, hours: int) -> None:
    assert Schedule("nightly", "15 4 * * *", BERLIN).interval(begin) == timedelta(hours=hours)


def test_the_times_of_runs_are_shown_in_their_zone() -> None:
    first, second = islice(fires("15 2 * * *", BERLIN, NOW), 2)
    assert first.isoformat() == "2026-03-02T02:15:00+01:00"
    assert second - first == timedelta(days=1)


@pytest.mark.parametrize(
    ("nightly", "stories", "hours"),
    [
        ("15 2 * * *", "15 */6 * * *", 6),
        ("15 2 * * *", "15 2 * * *", 25),
        ("15 2 * * *", "15 14 * * *", 13),
        ("15 2 * * *", "0 0 1 1 *", 25),
        ("15 2 * * 1-5", "15 2 1 * *", 73),
        ("0 0 1 1 *", "0 0 1 1 *", 305 * 24 + 11),
        ("* * * * *", "15 2 * * *", 1 / 60),
    ],
)
def test_the_stories_gap_combines_both_schedules_and_clock_changes(nightly: str, stories: str, hours: float) -> None:
    assert stories_gap(nightly, stories, BERLIN, NOW) == timedelta(hours=hours)


def test_a_schedule_that_can_miss_stories_causes_a_warning() -> None:
    assert gap_warning("15 2 * * *", "15 */6 * * *", BERLIN, NOW) is None
    assert gap_warning("15 2 * * *", "15 2 * * *", "UTC", NOW) is None
    warning = gap_warning("15 2 * * *", "15 2 * * *", BERLIN, NOW)
    assert warning is not None
    assert "up to 1 d 1 h. Fix: set GRAMHOUSE_STORIES" in warning


@pytest.mark.anyio
@pytest.mark.parametrize("expression", ["15 2 * * *", "15 */6 * * *", "0 3 * * MON-FRI", "0 4-8/2 1 * *", "30 0 * * 7"])
@pytest.mark.parametrize("begin", [NOW, datetime(2026, 3, 28, 1, tzinfo=UTC), datetime(2026, 10, 24, 1, tzinfo=UTC)])
async def test_our_times_equal_those_of_prefect_except_in_a_skipped_hour(expression: str, begin: datetime) -> None:
    theirs = await CronSchedule(cron=expression, timezone=BERLIN).get_dates(8, begin)
    ours = islice(fires(expression, BERLIN, begin), 8)
    apart = [abs(at.timestamp() - other.timestamp()) for at, other in zip(ours, theirs, strict=True)]
    assert max(apart) <= 3600
    assert sum(map(bool, apart)) <= 1


_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES = {3: ("JAN", "jul", "Dec"), 4: ("SUN", "mon-FRI", "sat")}


def _field(index: int) -> st.SearchStrategy[str]:
    least, most = _FIELDS[index]
    number, step = st.integers(least, most).map(str), st.integers(1, most).map(str)
    range_ = st.builds("{}-{}".format, number, number)
    base = st.one_of(st.just("*"), number, range_, st.sampled_from(_NAMES.get(index, ("*",))))
    term = st.one_of(base, st.builds("{}/{}".format, base, step))
    return st.one_of(st.just("*"), st.lists(term, min_size=1, max_size=3).map(",".join))


@given(st.tuples(*map(_field, range(5))).map(" ".join))
@settings(max_examples=100)
def test_prefect_runs_accepted_expressions_at_our_times(expression: str) -> None:
    try:
        check_cron(expression)
    except ValueError:
        reject()
    # Prefect's first time may be the beginning itself.
    theirs = asyncio.run(CronSchedule(cron=expression, timezone="UTC").get_dates(20, NOW + timedelta(seconds=1)))
    assert [at.timestamp() for at in islice(fires(expression, "UTC", NOW), 20)] == [at.timestamp() for at in theirs]
