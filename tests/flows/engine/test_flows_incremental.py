"""Incremental scans of posts: their requests, where they stop, and the contents of warehouse and snapshot."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.reporting.findings import list_findings
from flows.reporting.message import to_message
from models.runs import OutcomeKind, RunState
from models.selection import Selection
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import daily, uuid
from tests.clocks import START, StillClock
from tests.runs import PAGE, DailyRuns, kinds

pytestmark = [pytest.mark.anyio]

# 28 days with 2 posts each are 56 posts; the known run is 20 posts, and there are 3 pins.
RECENT_PAGES = 8
_SELDOM = 300


async def test_a_run_requests_new_posts_and_the_window(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(200, pins=[3, 90]))
    first = await runs.sync()
    assert (first.state, kinds(first)) == (RunState.COMPLETE, {OutcomeKind.COMPLETE: 3})
    assert len(runs.cursors) == 20
    runs.grow()
    second = await runs.sync()
    assert (second.state, kinds(second)) == (RunState.COMPLETE, {OutcomeKind.COMPLETE: 2, OutcomeKind.RECENT: 1})
    assert len(runs.cursors) == RECENT_PAGES
    assert runs.likes() == runs.truth()
    [(complete_at, recent_at, covered_from, item_order, gap)] = runs.ask(
        "SELECT complete_at, recent_at, covered_from, item_order, gap_since FROM freshness WHERE surface = 'posts'"
    )
    assert (complete_at, recent_at, item_order, gap) == (START, START + timedelta(days=1), "newest_first", None)
    assert covered_from == runs.service.feeds[1].listed()[RECENT_PAGES * PAGE - 1].published_at
    seen = dict(runs.ask("SELECT last_seen_at, count(*) FROM media GROUP BY ALL"))
    assert seen == {START: 202 - 80, START + timedelta(days=1): 80}


async def test_a_broken_order_loses_no_rows_and_must_be_proved_twice(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(150))
    await runs.sync()
    feed = runs.service.feeds[1]
    feed.pins = [1, 2, 3, 4]
    runs.grow()
    report = await runs.sync()
    assert kinds(report) == {OutcomeKind.COMPLETE: 3}
    assert runs.likes() == runs.truth()
    feed.pins = []
    assert kinds(await runs.sync())[OutcomeKind.COMPLETE] == 3
    assert kinds(await runs.sync())[OutcomeKind.COMPLETE] == 3
    assert kinds(await runs.sync())[OutcomeKind.RECENT] == 1


@pytest.mark.long
async def test_a_restarted_scan_stays_full_after_the_order_was_broken(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(150))
    await runs.sync()
    feed = runs.service.feeds[1]
    feed.pins = [1, 2, 3, 4]

    def failure(request: Asked) -> Action | None:
        if not feed.pins or not request.is_posts(1) or request.cursor is None:
            return None
        # The cursor is refused, and from now on no post is pinned.
        feed.pins = []
        return refuse("api_invalid_cursor")

    runs.service.fault = failure
    report = await runs.sync()
    assert report.restarted == 1
    assert kinds(report) == {OutcomeKind.COMPLETE: 3}


async def test_a_removal_needs_two_scans_and_has_the_time_of_the_first(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(200))
    await runs.sync(full_refresh_every=_SELDOM)
    feed = runs.service.feeds[1]
    feed.posts[190].is_deleted = feed.posts[20].is_deleted = True
    first = runs.now
    await runs.sync(full_refresh_every=_SELDOM)
    assert len(runs.ask("SELECT * FROM media WHERE removed_at IS NOT NULL")) == 0
    # Its removal is pending: it was last seen the day before.
    assert runs.ask("SELECT last_seen_at FROM media WHERE media_id = '1-190'") == [(START,)]
    await runs.sync(full_refresh_every=_SELDOM)
    gone = "SELECT media_id, removed_at, removal FROM media WHERE removed_at IS NOT NULL ORDER BY media_id"
    assert runs.ask(gone) == [("1-190", first, "removed")]
    await runs.sync(mode="full_refresh")
    assert [row[0] for row in runs.ask(gone)] == ["1-190"]
    await runs.sync(mode="full_refresh")
    assert [row[0] for row in runs.ask(gone)] == ["1-190", "1-20"]


@pytest.mark.long
async def test_posts_of_the_same_time_as_the_last_one_are_not_covered(tmp_path: Path) -> None:
    feed = daily(200)
    runs = DailyRuns(tmp_path, feed)
    edge = feed.listed()[RECENT_PAGES * PAGE - 1]
    feed.posts[edge.number - 1].published_at = edge.published_at
    await runs.sync(days=0.05)
    # Now the post with the same time is the last one received.
    edge.is_deleted = True
    for _ in range(3):
        assert kinds(await runs.sync(days=0.05, full_refresh_every=_SELDOM))[OutcomeKind.RECENT] == 1
        assert len(runs.cursors) == RECENT_PAGES
    assert runs.ask("SELECT * FROM media WHERE removed_at IS NOT NULL") == []


async def test_a_scan_cut_short_leaves_a_gap_which_the_next_one_reads(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(120, per_day=10))
    window: dict[str, Any] = {"lookback_window": 1, "full_refresh_every": _SELDOM}
    await runs.sync(days=12, **window)
    # Twelve days without runs: 120 posts, of which a run that is killed receives 80.
    feed = runs.service.feeds[1]
    for place in range(120):
        feed.post(START + timedelta(hours=1 + 2.3 * place))

    await runs.cut_short(after=8, **window)
    # Its cursor is refused, so the scan is not resumed there.
    refused = [refuse("api_invalid_cursor")]
    runs.service.fault = lambda request: refused.pop() if request.cursor and refused else None
    report = await runs.sync(**window)
    assert kinds(report)[OutcomeKind.RECENT] == 1
    assert runs.likes() == runs.truth()
    assert runs.ask("FROM gaps") == []


async def test_an_open_gap_is_listed_until_a_scan_closes_it(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(200))
    await runs.sync()
    runs.grow()
    runs.service.fault = lambda request: refuse("api_forbidden") if request.cursor == "c30" else None
    began = runs.now
    report = await runs.sync()
    assert kinds(report)[OutcomeKind.DENIED] == 1
    [(account, surface, since, cursor, pages, read_down_to, known_from, reason)] = runs.ask("FROM gaps")
    assert (account, surface, since, cursor, pages, reason) == (uuid(1), "posts", began, "c30", 3, "api_forbidden")
    assert read_down_to == runs.service.feeds[1].listed()[29].published_at
    assert known_from == START - timedelta(hours=1)
    assert runs.ask("SELECT gap_since, recent_at FROM freshness WHERE surface = 'posts'") == [(began, None)]
    runs.service.fault = lambda _: None
    await runs.sync()
    assert runs.ask("FROM gaps") == []
    assert runs.likes() == runs.truth()


async def test_a_backfill_is_always_full(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(100))
    await runs.sync()
    await runs.sync(selection=Selection(accounts=(uuid(1),)))
    assert len(runs.cursors) == 10


@pytest.mark.long
async def test_full_scans_spread_over_the_days_and_keep_to_a_budget(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, *(daily(100) for _ in range(14)))
    runs.service.seconds_each = 1.0
    full: list[int] = []
    for _ in range(15):
        report = await runs.sync()
        full.append(kinds(report)[OutcomeKind.COMPLETE] - 15)
    assert full[0] == 14
    assert all(count < 10 for count in full[1:])
    assert sum(full[1:8]) == 14 == sum(full[8:15])
    runs.clock.days(20)
    assert kinds(await runs.sync(full_refresh_budget=30))[OutcomeKind.COMPLETE] - 15 == 3
    runs.clock.days(20)
    assert kinds(await runs.sync(full_refresh_budget=30))[OutcomeKind.COMPLETE] - 15 >= 11


async def test_requests_are_counted(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(400))
    # The catalogue, the stories, and 40 pages of posts.
    assert (await runs.sync(mode="full_refresh")).requests == 42
    second = await runs.sync()
    assert second.requests == 2 + RECENT_PAGES
    assert runs.ask("SELECT requests FROM runs WHERE kind = 'sync' ORDER BY seq") == [(42,), (2 + RECENT_PAGES,)]
    assert "requests: 10." in to_message(second)


async def test_a_request_limit_defers_the_rest_and_the_longest_unscanned_come_first(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, *(daily(30) for _ in range(6)))
    asked: list[set[int]] = []
    for _ in range(4):
        before = len(runs.service.requests)
        report = await runs.sync(max_requests=9)
        assert report.requests <= 9
        assert report.state is RunState.PARTIAL
        assert report.outcomes.total == 13
        [failure_group] = report.failure_groups
        assert (failure_group.outcome, failure_group.error_code) == (OutcomeKind.DEFERRED, "request_budget")
        asked.append({request.number or 0 for request in runs.service.requests[before:]} - {0})
    # Four requests per account, so two accounts per run; accounts that were never scanned come first.
    assert asked == [{1, 2}, {3, 4}, {5, 6}, {1, 2}]
    report = await runs.sync()
    assert report.state is RunState.COMPLETE
    assert runs.likes() == {key: likes for one in range(1, 7) for key, likes in runs.truth(one).items()}


async def test_scans_deferred_by_a_request_limit_come_first_in_the_next_run(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(30))
    surfaces: list[list[str]] = []
    for _ in range(4):
        before = len(runs.service.requests)
        report = await runs.sync(max_requests=2, days=0.01)
        assert report.requests == 2
        surfaces.append([asked.surface for asked in runs.service.requests[before:] if asked.surface])
    # Otherwise the stories of a partly scanned account would be read in every run.
    assert surfaces == [["stories"], ["posts"], ["posts"], ["posts"]]


async def test_no_scan_waits_after_the_last_request_of_a_limited_run(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(30), daily(30))
    runs.clock = runs.service.clock = StillClock()
    runs.service.fault = lambda request: refuse("rate_limited", 90) if request.number == 1 else None
    async with asyncio.timeout(30):
        report = await runs.sync(max_requests=4, concurrency=2, days=0)
    assert any(seconds > 90 for seconds in runs.clock.slept)
    assert report.requests == len(runs.service.requests) == 4
    [failure_group] = report.failure_groups
    assert (failure_group.outcome, failure_group.error_code) == (OutcomeKind.DEFERRED, "request_budget")


async def test_full_scans_that_a_budget_defers_too_long_are_a_concern(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, *(daily(100) for _ in range(3)))
    runs.service.seconds_each = 1.0
    await runs.sync()
    runs.clock.days(15)
    report = await runs.sync(full_refresh_budget=1)
    [overdue] = [finding for finding in list_findings(report) if finding.code == "full_overdue"]
    assert len(overdue.accounts) == 2
    assert report.state is RunState.COMPLETE


@pytest.mark.long
async def test_an_abandoned_scan_without_new_pages_leaves_no_gap_above_backfilled_posts(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(200))
    await runs.sync()
    runs.grow()
    await runs.cut_short(after=3)
    await runs.sync(days=0.1, selection=Selection(accounts=(uuid(1),)))
    assert runs.ask("FROM gaps") == []
    # It continues below the posts that the backfill has read.
    await runs.cut_short(after=2)
    assert runs.ask("FROM gaps") == []
    # Its cursor is refused, and then its first page, too: it is abandoned and lands nothing.
    refused = refuse("api_invalid_cursor")
    runs.service.fault = lambda request: refused if request.is_posts(1) else None
    report = await runs.sync(days=0.1)
    assert kinds(report)[OutcomeKind.FAILED] == 1
    assert runs.ask("FROM gaps") == []


@pytest.mark.long
async def test_a_gap_stays_listed_after_the_first_page_is_refused_too(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(200))
    await runs.sync()
    runs.grow()
    await runs.cut_short(after=3)
    runs.service.fault = lambda request: refuse("api_invalid_cursor") if request.is_posts(1) else None
    for _ in range(2):
        await runs.sync(days=0.1)
        assert runs.ask("SELECT surface, cursor, pages, reason FROM gaps") == [("posts", None, 4, "api_invalid_cursor")]
    runs.service.fault = lambda _: None
    await runs.sync()
    assert runs.ask("FROM gaps") == []
    assert runs.likes() == runs.truth()
