"""Freshness goals, and which accounts a run keeps because they are due. tests/warehouse/test_store_dues.py has when."""

from datetime import UTC, datetime, timedelta

import pytest

from models.feeds import SURFACES, media
from models.selection import DAY, HOUR, ChosenAccount, Due, keep_due, read_goals

NOW = datetime(2026, 3, 1, 2, 15, tzinfo=UTC)


def test_goals_are_read() -> None:
    for text, posts, stories in (
        ("posts=1d,stories=6h", DAY, 6 * HOUR),
        ("1d", DAY, 6 * HOUR),
        ("3h", 3 * HOUR, 3 * HOUR),
        (" posts = 7d ", 7 * DAY, 6 * HOUR),
        ("stories=23h,2d", 2 * DAY, 23 * HOUR),
    ):
        assert read_goals(text) == {"posts": posts, "stories": stories}


@pytest.mark.parametrize("text", ["", "1", "30m", "0h", "367d", "9999d", "posts=", "reels=1d", "1d,", "stories=24h"])
def test_what_is_no_goal_is_refused_with_the_fix(text: str) -> None:
    with pytest.raises(ValueError, match="; use one such as"):
        read_goals(text)


ANNA = ChosenAccount("A")
DUES = {
    media("a", "posts"): Due(NOW + timedelta(minutes=31), "rate"),
    media("a", "stories"): Due(NOW + timedelta(minutes=29), "goal"),
    media("b", "posts"): Due(None, "token_expired"),
    media("b", "stories"): Due(None, "token_expired"),
}


def test_a_run_keeps_what_is_due() -> None:
    for account, scan_expired, surfaces in (
        (ANNA, False, ("stories",)),
        (ChosenAccount("A", surfaces=("posts",)), False, ()),
        (ChosenAccount("A", status="token_expired"), False, ()),
        (ChosenAccount("A", status="token_expired"), True, ("stories",)),
        # Renewed since, and new.
        (ChosenAccount("b"), False, SURFACES),
        (ChosenAccount("c"), False, SURFACES),
    ):
        found = [one.surfaces for one in keep_due([account], DUES, now=NOW, scan_expired=scan_expired)]
        assert found == ([surfaces] if surfaces else [])
