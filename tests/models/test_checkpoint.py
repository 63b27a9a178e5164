"""Where a scan continues, what a page makes of its checkpoint, how deep it reads, and when a full one is due."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from models.checkpoint import KNOWN_RUN, PINS, Checkpoint, ClosedScan, FullReason, Post, ScanState, plan_scan, why_full
from models.feeds import media

T0, T1 = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, 12, tzinfo=UTC)
POSTS = media("anna", "posts")
START = Checkpoint(POSTS, "scan-1", "run-1", T0, T0)
FRESH = Checkpoint(POSTS, "scan-2", "run-2", T1, T1)


def page(checkpoint: Checkpoint, next_cursor: str | None, items: int = 1, **more: Any) -> Checkpoint:  # noqa: ANN401
    return checkpoint.advance(next_cursor, items=items, at=T0, **more)


SCANNING, COMPLETE = page(START, "c"), page(START, None)
ABANDONED = replace(SCANNING, cursor=None, state=ScanState.ABANDONED)
RECENT = replace(COMPLETE, state=ScanState.RECENT, known_seq=5)


def test_a_page_moves_the_checkpoint_and_only_a_null_cursor_ends_the_scan() -> None:
    after = START.advance("c", items=3, at=T1)
    assert after == Checkpoint(POSTS, "scan-1", "run-1", T0, T1, "c", 1, 3, ScanState.SCANNING)
    assert page(START, "", items=0).state is ScanState.SCANNING
    assert (COMPLETE.state, COMPLETE.cursor, COMPLETE.pages) == (ScanState.COMPLETE, None, 1)


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


@pytest.mark.parametrize("case", PLANS)
def test_a_scan_starts_resumes_or_is_done(case: str) -> None:
    fresh, last, resumed_runs, expected = PLANS[case]
    assert plan_scan(fresh, last, resumed_runs=resumed_runs, within=timedelta(hours=12)) == expected


NOW = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
DAY = timedelta(days=1)
EVERY = timedelta(days=7)
CLOSED = ClosedScan(90, NOW - DAY, 10, is_ordered=True, full_share=1.0)


def posts(*days: float, first: int = 0) -> list[Post]:
    """Posts published so many days ago."""
    return [Post(str(first + place), NOW - day * DAY) for place, day in enumerate(days)]


FEED = Checkpoint(POSTS, "scan", "run", NOW, NOW, known_seq=1)


def read(*pages: Sequence[Post], unknown: Collection[str] = (), after: Checkpoint = FEED) -> Checkpoint:
    """Read pages with a window of 28 days; all older posts are known unless said."""
    since = NOW - 28 * DAY
    known = {media_id for media_id, at in chain(*pages) if media_id is not None and at is not None and at < since}
    seen = set[str | None]()
    for page in pages:
        listed = []
        for post in page:
            listed.append((post, post.media_id not in seen))
            seen.add(post.media_id)
        after = after.read_feed(listed, known=known - {*unknown}, received_at=NOW)
        after = replace(after, items=after.items + len(page))
    return after


def old(count: int, first: int = 0, since: float = 30) -> list[Post]:
    return posts(*(since + place for place in range(count)), first=first)


Case = tuple[list[list[Post]], set[str], int, str | None, float]

# Pages, the ids that are not known, and then: the known run, what broke the order, the age in days of the last post.
FEEDS: dict[str, Case] = {
    "all but one after the pins": ([old(PINS + KNOWN_RUN - 1)], set(), KNOWN_RUN - 1, None, 51),
    "enough after the pins": ([old(PINS + KNOWN_RUN)], set(), KNOWN_RUN, None, 52),
    "on two pages": ([old(12), old(11, first=12, since=42)], set(), KNOWN_RUN, None, 52),
    "an unknown one resets it": ([[*posts(1, 2, 3, 27.9), *old(40, first=4)]], {"33"}, 10, None, 69),
    "known ones in the window do not count": ([posts(*range(1, 28))], set(), 0, None, 27),
    "pins are no evidence": ([[*posts(900, 800, 1), *old(5, first=3)]], set(), 5, None, 34),
    "a newer one": ([[*old(10), Post("x", NOW - 20 * DAY), *old(30, first=20, since=60)]], set(), 30, "x", 89),
    "one without a time": ([[*old(10), Post("x", None), *old(30, first=20, since=60)]], set(), 30, "x", 89),
    "one without an id": ([[*old(10), Post(None, None), *old(30, first=20, since=60)]], set(), 30, "", 89),
    "one in the future": ([[*old(3), Post("x", NOW + 1.01 * DAY), *old(30, first=4)]], set(), 30, "x", 59),
    "the first that broke it": ([[*old(10), Post("x", None), Post("y", None)]], set(), 0, "x", 39),
    # Two were posted meanwhile, and the list has moved by two.
    "just received": ([posts(1, 2, 3, 4, 5, 6), [*posts(5, 6, first=4), *posts(7, 8, first=6)]], set(), 0, None, 8),
    "a pin at its own place": (
        [[*posts(300, 1, 2, 3), *posts(4, first=5)], [Post("0", NOW - 300 * DAY)]], set(), 0, None, 4
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FEEDS)
def test_where_a_feed_is_known_and_what_breaks_its_order(case: str) -> None:
    pages, unknown, known_run, broken_by, days = FEEDS[case]
    feed = read(*pages, unknown=unknown)
    assert (feed.known_run, feed.order_broken_by, feed.read_to) == (known_run, broken_by, NOW - days * DAY)
    assert feed.reaches_known == (known_run >= KNOWN_RUN and broken_by is None)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=60), st.integers(1, 20))
def test_the_page_size_does_not_change_the_feed(days: list[int], size: int) -> None:
    listed = posts(*days)
    whole = read(listed)
    pages = [listed[begin : begin + size] for begin in range(0, len(listed), size)]
    assert read(*pages) == whole


def test_a_scan_is_recent_unless_a_reason_requires_a_full_one() -> None:
    for closed, every, why in (
        (None, EVERY, FullReason.FIRST),
        (CLOSED, None, FullReason.ALWAYS),
        (CLOSED, EVERY, None),
        (replace(CLOSED, is_ordered=False), EVERY, FullReason.NOT_IN_ORDER),
        (replace(CLOSED, pages=2), EVERY, FullReason.FEW_PAGES),
        (replace(CLOSED, complete_at=NOW - EVERY), EVERY, FullReason.DUE),
        (replace(CLOSED, full_share=1 / 7), EVERY, FullReason.DUE),
        (replace(CLOSED, full_share=1.01 / 7), EVERY, None),
    ):
        assert why_full(closed, every, at=NOW) is why
