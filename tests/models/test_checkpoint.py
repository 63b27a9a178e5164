"""Where a scan continues, and what a page makes of its checkpoint."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from models.checkpoint import Checkpoint, ScanState, plan_scan
from models.partition import media

T0, T1 = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 12, tzinfo=UTC)
POSTS = media("anna", "posts")
START = Checkpoint(POSTS, "scan-1", "run-1", T0, T0)
FRESH = Checkpoint(POSTS, "scan-2", "run-2", T1, T1)


def page(checkpoint: Checkpoint, next_cursor: str | None, items: int = 1, **more: Any) -> Checkpoint:  # noqa: ANN401
    return checkpoint.advance(next_cursor, items=items, at=T0, **more)


SCANNING, COMPLETE = page(START, "c"), page(START, None)
ABANDONED = SCANNING.abandon(T0)
RECENT = replace(COMPLETE, state=ScanState.RECENT, known_seq=5)


def test_a_page_moves_the_checkpoint_and_only_a_null_cursor_ends_the_scan() -> None:
    after = START.advance("c", items=3, at=T1)
    assert after == Checkpoint(POSTS, "scan-1", "run-1", T0, T1, "c", 1, 3, ScanState.SCANNING)
    assert page(START, "", items=0).state is ScanState.SCANNING
    assert (COMPLETE.state, COMPLETE.cursor, COMPLETE.pages) == (ScanState.COMPLETE, None, 1)
    assert Checkpoint(POSTS, "scan-1", "run-1", T0, T0, None, 1, 1, ScanState.ABANDONED) == ABANDONED


@pytest.mark.parametrize(("rejected", "state"), [(3, ScanState.COMPLETE), (4, ScanState.ABANDONED)])
def test_a_scan_that_rejected_more_than_half_is_abandoned_at_its_end(rejected: int, state: ScanState) -> None:
    first = page(START, "c", 4, rejected=rejected)
    assert first.state is ScanState.SCANNING
    assert page(first, None, 2).state is state


def of_backfill(checkpoint: Checkpoint) -> Checkpoint:
    return replace(checkpoint, run_kind="backfill")


def known(checkpoint: Checkpoint, seq: int) -> Checkpoint:
    return replace(checkpoint, known_seq=seq)


def goes_on(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint as the next run continues it."""
    return replace(checkpoint, run_id=FRESH.run_id)


def expired(checkpoint: Checkpoint) -> Checkpoint:
    return replace(checkpoint, had_expired_token=True)


LATER = replace(FRESH, started_at=T1 + timedelta(seconds=1))

# The checkpoint of a new scan, the last one, the runs that are resumed, and which of them the run begins with.
PLANS: dict[str, tuple[Checkpoint, Checkpoint | None, tuple[str, ...], Checkpoint]] = {
    "never scanned": (FRESH, None, (), FRESH),
    "never scanned, carrying on": (FRESH, None, ("run-1",), FRESH),
    "no page landed": (FRESH, START, (), FRESH),
    "broken off": (FRESH, SCANNING, (), goes_on(SCANNING)),
    "broken off by the run resumed": (FRESH, SCANNING, ("run-1",), goes_on(SCANNING)),
    "its token had expired": (FRESH, expired(SCANNING), (), goes_on(expired(SCANNING))),
    "its token has expired": (expired(FRESH), SCANNING, (), goes_on(expired(SCANNING))),
    "complete, of another day": (FRESH, COMPLETE, (), FRESH),
    "complete, of a run not resumed": (FRESH, COMPLETE, ("run-0",), FRESH),
    "complete, of a run resumed": (FRESH, COMPLETE, ("run-0", "run-1"), COMPLETE),
    "given up": (FRESH, ABANDONED, ("run-1",), FRESH),
    "a backfill's, not resumed": (of_backfill(FRESH), of_backfill(SCANNING), (), of_backfill(FRESH)),
    "a backfill's, resumed": (of_backfill(FRESH), of_backfill(SCANNING), ("run-1",), goes_on(of_backfill(SCANNING))),
    "recent, goes on as it was": (known(FRESH, 5), known(SCANNING, 5), (), goes_on(known(SCANNING, 5))),
    "another scan was closed meanwhile": (known(FRESH, 7), known(SCANNING, 5), (), goes_on(SCANNING)),
    "a full one is wanted now": (FRESH, known(SCANNING, 5), (), goes_on(SCANNING)),
    "it was full": (known(FRESH, 5), SCANNING, (), goes_on(SCANNING)),
    "a recent one is enough": (known(FRESH, 7), RECENT, ("run-1",), RECENT),
    "a recent one is not enough": (FRESH, RECENT, ("run-1",), FRESH),
    "complete, but began too long ago": (LATER, COMPLETE, ("run-1",), LATER),
    "recent, but began too long ago": (known(LATER, 7), RECENT, ("run-1",), known(LATER, 7)),
}


@pytest.mark.parametrize(("fresh", "last", "resumed_runs", "expected"), PLANS.values(), ids=PLANS)
def test_a_scan_starts_resumes_or_is_done(
    fresh: Checkpoint, last: Checkpoint | None, resumed_runs: tuple[str, ...], expected: Checkpoint
) -> None:
    assert plan_scan(fresh, last, resumed_runs=resumed_runs, within=timedelta(hours=12)) == expected
