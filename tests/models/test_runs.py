"""The state of a run, freshness goals, and which accounts a run keeps because they are due."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from models.feeds import SURFACES, media
from models.runs import Finding, OutcomeKind, RunState, Severity, one_line, run_state
from models.selection import DAY, HOUR, ChosenAccount, Due, keep_due, read_goals

COMPLETE, RECENT, SKIPPED, DEFERRED, DENIED, NOT_FOUND, FAILED = OutcomeKind


def test_the_state_of_a_run_follows_from_its_outcomes() -> None:
    for kinds, expected in (
        ([], RunState.COMPLETE),
        ([COMPLETE, SKIPPED], RunState.COMPLETE),
        ([DEFERRED], RunState.PARTIAL),
        ([COMPLETE, DEFERRED], RunState.PARTIAL),
        ([COMPLETE, FAILED], RunState.PARTIAL),
        ([FAILED], RunState.FAILED),
        ([DENIED, NOT_FOUND, SKIPPED], RunState.FAILED),
    ):
        assert run_state(Counter(kinds), stopped=False) is expected
        assert run_state(Counter(kinds), stopped=True) is RunState.FAILED


@pytest.mark.parametrize("kinds", [[], [COMPLETE], [DEFERRED], [FAILED]])
def test_a_run_with_a_warning_that_makes_it_partial_is_never_complete(kinds: list[OutcomeKind]) -> None:
    noted = Finding("values_not_cast", Severity.INFORMATION, "Two", count=2)
    serious = Finding("accounts_missing", Severity.ACTION, "Thirty", count=30)
    expected = RunState.FAILED if kinds == [FAILED] else RunState.PARTIAL
    assert run_state(Counter(kinds), stopped=False, warnings=[noted, serious]) is expected
    assert run_state(Counter(kinds), stopped=False, warnings=[noted]) is run_state(Counter(kinds), stopped=False)
    assert run_state(Counter(kinds), stopped=True, warnings=[serious]) is RunState.FAILED


def test_one_line_is_printable_and_bounded() -> None:
    assert one_line(" a\n\x1b[31mb\u202e\ud83d  c ") == "a [31mb c"
    assert one_line("x" * 201) == "x" * 199 + "…"
    assert one_line("x" * 200) == "x" * 200
    assert one_line("\n" * 5000 + "lost").endswith("…")


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


DUES = {
    media("a", "posts"): Due(NOW + timedelta(minutes=31), "rate"),
    media("a", "stories"): Due(NOW + timedelta(minutes=29), "goal"),
    media("b", "posts"): Due(None, "token_expired"),
    media("b", "stories"): Due(None, "token_expired"),
}


def test_a_run_keeps_what_is_due() -> None:
    for account, scan_expired, surfaces in (
        (ChosenAccount("A"), False, ("stories",)),
        (ChosenAccount("A", surfaces=("posts",)), False, ()),
        (ChosenAccount("A", status="token_expired"), False, ()),
        (ChosenAccount("A", status="token_expired"), True, ("stories",)),
        # Renewed since, and new.
        (ChosenAccount("b"), False, SURFACES),
        (ChosenAccount("c"), False, SURFACES),
    ):
        found = [one.surfaces for one in keep_due([account], DUES, now=NOW, scan_expired=scan_expired)]
        assert found == ([surfaces] if surfaces else [])
