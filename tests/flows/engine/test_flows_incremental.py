"""Incremental scans of posts: their requests, where they stop, and the contents of warehouse and snapshot."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.engine.plan import make_plan
from flows.engine.publishing import Published
from flows.pipeline import DIRECT, run_sync
from flows.reporting.message import to_message
from models.runs import OutcomeKind, RunState
from tests.api.faults import refuse
from tests.api.listed import daily, uuid
from tests.clocks import START, StillClock
from tests.operator import Operator
from tests.runs import PAGE, DailyRuns, open_run_resources

pytestmark = [pytest.mark.anyio]

# 28 days with 2 posts each are 56 posts; the known run is 20 posts, and there are 3 pins.
RECENT_PAGES = 8
_SELDOM = 300


def plan_posts(runs: DailyRuns, **changes: int) -> tuple[str, str, int]:
    """Return which scan of posts a plan has, why, and its requests."""
    plan = make_plan(runs.request(**changes), now=runs.now)
    [posts] = [scan for scan in plan["scans"] if scan["surface"] == "posts"]
    return posts["scan"], posts["reason"], posts["requests"]


async def test_a_run_requests_new_posts_and_the_window(tmp_path: Path) -> None:
    feed = daily(100, pins=[3, 60])
    # Posts of one time are in order.
    feed.posts[70] = feed.posts[71]
    runs = DailyRuns(tmp_path, feed)
    first = await runs.sync()
    assert (first.state, first.outcomes) == (RunState.COMPLETE, {OutcomeKind.COMPLETE: 3})
    assert len(runs.cursors) == 10
    runs.grow()
    assert plan_posts(runs, full_refresh_every=_SELDOM) == ("recent", "new_posts", RECENT_PAGES)
    second = await runs.sync(full_refresh_every=_SELDOM)
    assert (second.state, second.outcomes) == (RunState.COMPLETE, {OutcomeKind.COMPLETE: 2, OutcomeKind.RECENT: 1})
    assert len(runs.cursors) == RECENT_PAGES
    assert runs.shown() == runs.listed()
    [(complete_at, recent_at, covered_from, item_order, gap)] = runs.ask(
        "SELECT complete_at, recent_at, covered_from, item_order, gap_since FROM freshness WHERE surface = 'posts'"
    )
    assert (complete_at, recent_at, item_order, gap) == (START, START + timedelta(days=1), "newest_first", None)
    assert covered_from == feed.posts[feed.listed()[RECENT_PAGES * PAGE - 1]]
    seen = dict(runs.ask("SELECT last_seen_at, count(*) FROM media GROUP BY ALL"))
    assert seen == {START: 102 - 80, START + timedelta(days=1): 80}
    # The catalogue, the stories, and the pages of posts.
    asked = [2 + 10, 2 + RECENT_PAGES]
    [recent] = second.data["recent"]
    assert [*recent.values()] == ["posts", 1, 0, 24 * 3600]
    assert [number for (number,) in runs.ask("SELECT requests FROM runs ORDER BY seq")] == asked
    assert (second.requests, f"requests {asked[1]};" in to_message(second)) == (asked[1], True)
    assert plan_posts(runs, full_refresh_every=2) == ("full", "due", 10)
    assert (await runs.sync(full_refresh_every=2)).outcomes == {OutcomeKind.COMPLETE: 3}


async def test_a_broken_order_loses_no_rows_and_must_be_proved_twice(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(100))
    await runs.sync()
    feed = runs.service.feeds[1]
    feed.pins = [1, 2, 3, 4]
    runs.grow()
    report = await runs.sync()
    assert report.outcomes == {OutcomeKind.COMPLETE: 3}
    assert runs.shown() == runs.listed()
    feed.pins = []
    found = [(await runs.sync(full_refresh_every=_SELDOM)).outcomes.get(OutcomeKind.RECENT, 0) for _ in range(3)]
    assert found == [0, 0, 1]


@pytest.mark.parametrize(
    ("asked", "requests", "outcomes"),
    [({"due": True}, 0, {}), ({"mode": "full_refresh"}, 10, {OutcomeKind.COMPLETE: 3})],
    ids=["nothing is due", "full, which does not rest on recent scans"],
)
async def test_a_run_that_was_not_published_is_carried_on(
    tmp_path: Path, asked: dict[str, Any], requests: int, outcomes: dict[OutcomeKind, int]
) -> None:
    runs = DailyRuns(tmp_path, daily(100))
    await runs.sync()

    async def fail(_: object) -> Published:
        raise OSError("no space")

    async with open_run_resources(tmp_path, runs.service) as resources:
        with pytest.raises(OSError, match="no space"):
            await run_sync(runs.request(full_refresh_every=_SELDOM), resources, replace(DIRECT, publish=fail))
    report = await runs.sync(**asked)
    assert (report.state, report.requests, report.outcomes) == (RunState.COMPLETE, requests, outcomes)


async def test_an_open_gap_is_listed_until_a_scan_closes_it(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(100))
    await runs.sync()
    runs.grow()
    runs.service.fault = lambda request: refuse("api_forbidden") if request.cursor == "c30" else None
    began = runs.now
    report = await runs.sync()
    assert report.outcomes[OutcomeKind.DENIED] == 1
    assert [(gap["ig_username"], gap["reason"], gap["pages"]) for gap in report.data["gaps"]] == [
        ("user_1", "api_forbidden", 3)
    ]
    [(account, surface, since, cursor, pages, read_down_to, known_from, reason)] = runs.ask("FROM gaps")
    assert (account, surface, since, cursor, pages, reason) == (uuid(1), "posts", began, "c30", 3, "api_forbidden")
    feed = runs.service.feeds[1]
    assert read_down_to == feed.posts[feed.listed()[29]]
    assert known_from == START - timedelta(hours=1)
    assert runs.ask("SELECT gap_since, recent_at FROM freshness WHERE surface = 'posts'") == [(began, None)]
    # Neither the cursor nor the first page is answered.
    runs.service.fault = lambda request: refuse("api_invalid_cursor") if request.is_posts(1) else None
    await runs.sync()
    assert runs.ask("SELECT cursor, pages, reason FROM gaps") == [(None, 3, "api_invalid_cursor")]
    runs.service.fault = lambda _: None
    await runs.sync()
    assert runs.ask("FROM gaps") == []
    assert runs.shown() == runs.listed()


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
    assert Operator(tmp_path).in_state("SELECT count(*) FROM cooldowns") == [(1,)]
    assert report.requests == len(runs.service.requests) == 4
    [group] = report.failure_groups
    assert (group.outcome, group.error_code) == (OutcomeKind.DEFERRED, "request_budget")
