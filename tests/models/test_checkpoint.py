from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from models.checkpoint import Checkpoint, ScanState, plan_scan
from models.partition import media

T0, T1 = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 12, tzinfo=UTC)
WITHIN = timedelta(hours=12)
POSTS = media("anna", "posts")
START = Checkpoint(POSTS, "scan-1", "run-1", T0, T0)


def plan(last: Checkpoint | None, *resumed_runs: str) -> Checkpoint:
    return _plan_at(T1, last, resumed_runs)


def _plan_at(
    now: datetime, last: Checkpoint | None, resumed_runs: tuple[str, ...], known_seq: int | None = None
) -> Checkpoint:
    return plan_scan(
        POSTS,
        last,
        run_id="run-2",
        resumed_runs=resumed_runs,
        now=now,
        fresh_within=WITHIN,
        new_id=lambda: "scan-2",
        known_seq=known_seq,
    )


def test_a_page_with_a_cursor_carries_the_scan_on() -> None:
    after = START.advance(run_id="run-2", next_cursor="c", items=3, at=T1)
    assert after == Checkpoint(POSTS, "scan-1", "run-2", T0, T1, "c", 1, 3, ScanState.SCANNING)


def test_only_a_null_cursor_ends_the_scan() -> None:
    assert START.advance(run_id="run-1", next_cursor="", items=0, at=T1).state is ScanState.SCANNING
    ended = START.advance(run_id="run-1", next_cursor=None, items=0, at=T1)
    assert (ended.state, ended.cursor, ended.pages) == (ScanState.COMPLETE, None, 1)


def test_a_scan_given_up_keeps_its_counts_and_no_cursor() -> None:
    scanning = START.advance(run_id="run-1", next_cursor="c", items=3, at=T0)
    assert scanning.abandon(run_id="run-2", at=T1) == Checkpoint(
        POSTS, "scan-1", "run-2", T0, T1, None, 1, 3, ScanState.ABANDONED
    )


@pytest.mark.parametrize(("rejected", "state"), [(3, ScanState.COMPLETE), (4, ScanState.ABANDONED)])
def test_a_scan_that_rejected_more_than_half_is_abandoned_at_its_end(rejected: int, state: ScanState) -> None:
    first = START.advance(run_id="run-1", next_cursor="c", items=4, rejected=rejected, at=T0)
    assert first.state is ScanState.SCANNING
    assert first.advance(run_id="run-1", next_cursor=None, items=2, at=T1).state is state


def test_a_token_that_had_expired_on_one_page_is_remembered_to_the_end() -> None:
    first = START.advance(run_id="run-1", next_cursor="c", items=1, at=T0, token_expired=True)
    assert first.advance(run_id="run-1", next_cursor=None, items=1, at=T1).had_expired_token


@pytest.mark.parametrize("resumed", [(), ("run-1",)])
def test_a_backfill_continues_only_scans_of_the_runs_that_it_resumes(resumed: tuple[str, ...]) -> None:
    last = replace(SCANNING, run_kind="backfill")
    plan = plan_scan(
        POSTS,
        last,
        run_id="run-2",
        resumed_runs=resumed,
        now=T1,
        fresh_within=WITHIN,
        new_id=lambda: "scan-2",
        run_kind="backfill",
    )
    assert plan == (last if resumed else replace(FRESH, run_kind="backfill"))


FRESH = Checkpoint(POSTS, "scan-2", "run-2", T1, T1)
SCANNING = START.advance(run_id="run-1", next_cursor="c", items=1, at=T0)
COMPLETE = START.advance(run_id="run-1", next_cursor=None, items=1, at=T0)


PLANS: dict[str, tuple[Checkpoint | None, tuple[str, ...], Checkpoint]] = {
    "never scanned": (None, (), FRESH),
    "never scanned, carrying on": (None, ("run-1",), FRESH),
    "no page landed": (START, (), FRESH),
    "broken off": (SCANNING, (), SCANNING),
    "broken off by the run resumed": (SCANNING, ("run-1",), SCANNING),
    "complete, of another day": (COMPLETE, (), FRESH),
    "complete, of a run not resumed": (COMPLETE, ("run-0",), FRESH),
    "complete, of a run resumed": (COMPLETE, ("run-0", "run-1"), COMPLETE),
    "given up": (SCANNING.abandon(run_id="run-1", at=T0), ("run-1",), FRESH),
}


@pytest.mark.parametrize(("last", "resumed_runs", "expected"), PLANS.values(), ids=PLANS)
def test_a_scan_starts_resumes_or_is_done(
    last: Checkpoint | None, resumed_runs: tuple[str, ...], expected: Checkpoint
) -> None:
    assert plan(last, *resumed_runs) == expected


RECENT = replace(COMPLETE, state=ScanState.RECENT, known_seq=5)


RECENT_PLANS = {
    "goes on as it was": (replace(SCANNING, known_seq=5), 5, replace(SCANNING, known_seq=5)),
    "another scan was closed meanwhile": (replace(SCANNING, known_seq=5), 7, SCANNING),
    "a full one is wanted now": (replace(SCANNING, known_seq=5), None, SCANNING),
    "it was full": (SCANNING, 5, SCANNING),
    "a recent one is enough": (RECENT, 7, RECENT),
    "a recent one is not enough": (RECENT, None, FRESH),
}


@pytest.mark.parametrize(("last", "known_seq", "expected"), RECENT_PLANS.values(), ids=RECENT_PLANS)
def test_a_recent_scan_continues_as_recent_only_if_still_allowed(
    last: Checkpoint, known_seq: int | None, expected: Checkpoint
) -> None:
    resumed = ("run-1",)
    assert _plan_at(T1, last, resumed, known_seq) == expected


@pytest.mark.parametrize("closed", [COMPLETE, RECENT])
def test_a_closed_scan_that_began_too_long_ago_is_repeated(closed: Checkpoint) -> None:
    later = T1 + timedelta(seconds=1)
    again = Checkpoint(POSTS, "scan-2", "run-2", later, later, known_seq=7)
    assert _plan_at(T1, closed, (closed.run_id,), 7) == closed
    assert _plan_at(later, closed, (closed.run_id,), 7) == again
