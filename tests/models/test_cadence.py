"""When feeds are due: a table of histories, and what holds for all rates and goals."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.feeds import SURFACES, media
from models.runs import REQUEST_BUDGET, OutcomeKind
from models.selection import (
    DAY,
    HOUR,
    ChosenAccount,
    Due,
    DueReason,
    History,
    decide_due,
    find_interval,
    keep_due,
    read_goals,
)

NOW = datetime(2026, 3, 1, 2, 15, tzinfo=UTC)
WEEK = read_goals("posts=7d,stories=6h")


@pytest.mark.parametrize(
    ("text", "posts", "stories"),
    [
        ("posts=1d,stories=6h", DAY, 6 * HOUR),
        ("1d", DAY, 6 * HOUR),
        ("3h", 3 * HOUR, 3 * HOUR),
        (" posts = 7d ", 7 * DAY, 6 * HOUR),
        ("stories=23h,2d", 2 * DAY, 23 * HOUR),
    ],
)
def test_goals_are_read(text: str, posts: timedelta, stories: timedelta) -> None:
    assert read_goals(text) == {"posts": posts, "stories": stories}


@pytest.mark.parametrize("text", ["", "1", "30m", "0h", "367d", "9999d", "posts=", "reels=1d", "1d,", "stories=24h"])
def test_what_is_no_goal_is_refused_with_the_fix(text: str) -> None:
    with pytest.raises(ValueError, match="; use one such as"):
        read_goals(text)


SCANNED = History(NOW - 100 * DAY, NOW)
LATER = NOW + 2 * DAY


def failed_at(at: datetime) -> History:
    return SCANNED._replace(outcome=OutcomeKind.FAILED, tried_at=at)


CASES: dict[str, tuple[str, str, History, timedelta, DueReason]] = {
    "never scanned": ("posts", "7d", History(NOW), timedelta(), DueReason.FIRST),
    "the default": ("posts", "1d", SCANNED, DAY, DueReason.GOAL),
    "a short goal": ("posts", "3h", SCANNED._replace(new=500), 3 * HOUR, DueReason.GOAL),
    "nothing new": ("posts", "7d", SCANNED, 7 * DAY, DueReason.GOAL),
    "a post a week": ("posts", "7d", SCANNED._replace(new=4), 1.4 * DAY, DueReason.RATE),
    "a post a day": ("posts", "7d", SCANNED._replace(new=28), DAY, DueReason.RATE),
    "stories": ("stories", "7d", SCANNED._replace(new=1), 6 * HOUR, DueReason.GOAL),
    "no stories": ("stories", "7d", SCANNED, DAY, DueReason.QUIET),
    "the catalogue": ("", "7d", SCANNED, DAY, DueReason.GOAL),
    "done": ("posts", "7d", SCANNED._replace(outcome=OutcomeKind.RECENT, tried_at=NOW), 7 * DAY, DueReason.GOAL),
    "renewed": ("posts", "7d", SCANNED._replace(outcome=OutcomeKind.SKIPPED, tried_at=NOW), 7 * DAY, DueReason.GOAL),
    "failed early": (
        "posts", "7d", failed_at(LATER), 2 * DAY + HOUR, DueReason.RETRY
    ),
    "failed for 3 hours": (
        "posts", "1d", failed_at(NOW + 27 * HOUR), 30 * HOUR, DueReason.RETRY
    ),
    "failed for days": (
        "posts", "1d", failed_at(NOW + 7 * DAY), 7.25 * DAY, DueReason.RETRY
    ),
    "denied": ("posts", "7d", SCANNED._replace(outcome=OutcomeKind.DENIED, tried_at=NOW), DAY, DueReason.RETRY),
    "not found": ("posts", "7d", SCANNED._replace(outcome=OutcomeKind.NOT_FOUND, tried_at=NOW), DAY, DueReason.RETRY),
    "cooling down": (
        "posts",
        "7d",
        SCANNED._replace(outcome=OutcomeKind.DEFERRED, tried_at=NOW, resume_after=NOW + 3 * HOUR),
        3 * HOUR,
        DueReason.RETRY,
    ),
    "cooling down for a year": (
        "posts",
        "7d",
        SCANNED._replace(outcome=OutcomeKind.DEFERRED, tried_at=NOW, resume_after=NOW + 365 * DAY),
        DAY,
        DueReason.RETRY,
    ),
    "left out by a limit": (
        "posts",
        "1d",
        SCANNED._replace(outcome=OutcomeKind.DEFERRED, error_code=REQUEST_BUDGET, tried_at=LATER),
        DAY,
        DueReason.GOAL,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("surface", "goals", "history", "after", "reason"), CASES.values(), ids=CASES)
def test_when_a_feed_is_due(surface: str, goals: str, history: History, after: timedelta, reason: DueReason) -> None:
    assert decide_due(surface, history, read_goals(goals)) == Due(NOW + after, reason)


@given(st.sampled_from(SURFACES), st.integers(0, 400), st.integers(1, 366 * 24), st.integers(1, 23))
def test_an_interval_is_within_its_bounds_falls_with_the_rate_and_does_not_flap(
    surface: str, new: int, hours: int, of_stories: int
) -> None:
    goals = read_goals(f"{hours // 24}d,stories={of_stories}h" if hours >= 24 else f"{hours}h,stories={of_stories}h")
    interval, busier = (find_interval(surface, number, goals)[0] for number in (new, new + 1))
    most = DAY if surface == "stories" and not new else goals[surface]
    assert min(DAY, goals[surface]) <= interval <= most
    assert busier <= interval
    assert interval <= 2 * busier or (surface == "stories" and not new)


ANNA = ChosenAccount("A")
DUES = {
    media("a", "posts"): Due(NOW + timedelta(minutes=31), DueReason.RATE),
    media("a", "stories"): Due(NOW + timedelta(minutes=29), DueReason.GOAL),
    media("b", "posts"): Due(None, DueReason.TOKEN_EXPIRED),
    media("b", "stories"): Due(None, DueReason.TOKEN_EXPIRED),
}


@pytest.mark.parametrize(
    ("account", "scan_expired", "surfaces"),
    [
        (ANNA, False, ("stories",)),
        (ChosenAccount("A", surfaces=("posts",)), False, ()),
        (ChosenAccount("A", status="token_expired"), False, ()),
        (ChosenAccount("A", status="token_expired"), True, ("stories",)),
        # Renewed since, and new.
        (ChosenAccount("b"), False, SURFACES),
        (ChosenAccount("c"), False, SURFACES),
    ],
)
def test_a_run_keeps_what_is_due(account: ChosenAccount, scan_expired: bool, surfaces: tuple[str, ...]) -> None:  # noqa: FBT001 - a case
    found = [one.surfaces for one in keep_due([account], DUES, now=NOW, scan_expired=scan_expired)]
    assert found == ([surfaces] if surfaces else [])
