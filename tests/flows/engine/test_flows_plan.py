"""Who is scanned and when, in which batches; and what a plan says is what the run then does."""

from collections import Counter
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from connectors.warehouse.queries.reader import Record
from flows.config.run_request import RunRequest
from flows.config.settings import Settings
from flows.engine.choosing import Choice
from flows.engine.plan import describe_plan, make_plan
from flows.engine.resources import RunResources
from flows.engine.run import Run
from flows.pipeline import run_sync
from models.feeds import SURFACES
from models.runs import OutcomeKind, RunState
from models.selection import HOUR, ChosenAccount, NothingChosen, Selection
from tests.api.asked import Asked
from tests.api.faults import refuse
from tests.api.listed import Feed, ListedApi, daily
from tests.clocks import START, VirtualClock
from tests.operator import Operator
from tests.runs import DailyRuns, open_run_resources, request, synced

pytestmark = pytest.mark.anyio


def reasons(plan: Record) -> Counter[tuple[str, str, str]]:
    return Counter((scan["surface"], scan["scan"], scan["reason"]) for scan in plan["scans"])


async def test_a_plan_says_why_scans_are_not_made(tmp_path: Path) -> None:
    limited = refuse("rate_limited", retry_after=7200)
    service = ListedApi(accounts=4, posts=12, expired=frozenset({3}))
    service.fault = lambda asked: limited if asked.is_posts(4) else None
    async with open_run_resources(tmp_path, service) as resources:
        await run_sync(request(tmp_path), resources)
        now = resources.clock.now()
        # The warehouse is still locked here.
        plan = make_plan(request(tmp_path), now=now)
        kinds = {("full", "always"): 2, ("none", "token_expired"): 1, ("none", "cooldown"): 1}
        assert plan["catalogue_requests"] == 2
        assert reasons(plan) == {(surface, *kind): kinds[kind] for surface in SURFACES for kind in kinds}
        service.requests.clear()
        report = await run_sync(request(tmp_path), resources)
        assert {4, 3}.isdisjoint(asked.number for asked in service.requests)
        assert report.outcomes[OutcomeKind.DEFERRED] == 2
        [until] = {scan["resume_after"] for scan in plan["scans"] if scan["reason"] == "cooldown"}
        assert until is not None
        assert until > now + timedelta(hours=1)
        everything = make_plan(request(tmp_path, selection=Selection(everything=True)), now=now)
        assert (everything["catalogue_requests"], reasons(everything)) == (0, reasons(plan))
        assert describe_plan(everything) == (
            f"4 scans would run, about {everything['requests']} requests; 4 would not (cooldown, token_expired)."
        )
        # Within the budget a run waits; later there is nothing to wait for.
        patient = make_plan(request(tmp_path, max_wait=90_000), now=now)
        assert patient["longest_wait"] == pytest.approx((until - now).total_seconds())
        for one in (patient, make_plan(request(tmp_path), now=until)):
            assert not [scan for scan in one["scans"] if scan["reason"] == "cooldown"]
        expired_too = make_plan(request(tmp_path, scan_expired=True), now=until)
        assert {scan["scan"] for scan in expired_too["scans"]} == {"full"}


async def test_a_plan_leaves_out_what_an_interrupted_run_has_saved(tmp_path: Path) -> None:
    service = ListedApi(accounts=5, posts=12)
    await synced(tmp_path, service)
    whole = make_plan(request(tmp_path), now=service.clock.now())
    service.fault = lambda each: RuntimeError("killed") if each.is_posts(4) and each.cursor == "c10" else None
    with pytest.raises(RuntimeError, match="killed"):
        await synced(tmp_path, service)
    service.clock.passed += 60
    left = make_plan(request(tmp_path), now=service.clock.now())
    service.fault = lambda _: None
    service.requests.clear()
    report = await synced(tmp_path, service)
    assert (report.state, len(service.requests)) == (RunState.COMPLETE, left["requests"])
    assert left["requests"] < whole["requests"]
    assert ("stories", "none", "saved") in reasons(left)


async def test_a_plan_knows_the_cooldown_of_a_run_that_was_killed(tmp_path: Path) -> None:
    service = ListedApi()
    await synced(tmp_path, service)
    answers: list[Any] = [RuntimeError("killed"), refuse("rate_limited", retry_after=50)]
    service.fault = lambda asked: answers.pop() if asked.is_posts(2) else None
    with pytest.raises(RuntimeError, match="killed"):
        await synced(tmp_path, service)
    # It was killed by the first request after the wait.
    plan = make_plan(request(tmp_path), now=service.clock.now() - timedelta(seconds=10))
    assert plan["longest_wait"] == pytest.approx(10, abs=1)


async def test_a_plan_leaves_out_nothing_that_a_run_in_progress_has_saved(tmp_path: Path) -> None:
    service = ListedApi(accounts=2, posts=3)
    await synced(tmp_path, service)
    before, plans = make_plan(request(tmp_path), now=service.clock.now()), list[Record]()

    def plan(_: Asked) -> None:
        plans.append(make_plan(request(tmp_path), now=service.clock.now()))

    service.fault = plan
    await synced(tmp_path, service)
    assert plans == [before] * before["requests"]


GOALS: dict[str, Any] = {"due": True, "fresh_within": "posts=3d,stories=6h"}


async def hours(runs: DailyRuns, number: int, **changes: Any) -> list[tuple[int, int | None, str | None]]:  # noqa: ANN401 - as `request`
    """Run hourly syncs for so many hours; return hour, account and surface of each scan, which its run's plan has.

    Hours for which nothing is planned are left out.
    """
    asked = list[tuple[int, int | None, str | None]]()
    end, is_first = runs.now + number * HOUR, not runs.service.requests
    while runs.now < end:
        before, hour = len(runs.service.requests), round((runs.now - START) / HOUR)
        plan: Record = {"requests": 0} if is_first else make_plan(runs.request(**changes), now=runs.now)
        if not (is_first or plan["requests"]):
            wait = min(scan["due_at"] for scan in plan["scans"] if scan["due_at"]) - runs.now
            runs.clock.days(ceil((wait - HOUR / 2) / HOUR) / 24)
            continue
        report = await runs.sync(days=1 / 24, **changes)
        found = {(hour, one.number, one.surface) for one in runs.service.requests[before:]}
        if not is_first:
            scans = sum(scan["scan"] != "none" for scan in plan["scans"])
            assert scans == sum(bool(one) for _, one, _ in found)
            assert scans == report.outcomes.total() - bool(plan["catalogue_requests"])
        asked, is_first = [*asked, *sorted(found, key=str)], False
    return asked


async def test_days_of_hours_of_a_quiet_and_a_busy_account(tmp_path: Path) -> None:
    quiet, busy = Feed(), daily(60)
    runs = DailyRuns(tmp_path, quiet, busy)
    runs.service.stories = 0
    quiet.post(START - timedelta(days=100))
    asked = await hours(runs, 24 * 4, **GOALS)
    scans = Counter((number, surface) for _, number, surface in asked)
    # The catalogue and the stories of accounts without any are asked for once a day.
    assert scans == {
        (None, None): 4, (1, "stories"): 4, (2, "stories"): 4, (2, "posts"): 4, (1, "posts"): 2
    }  # fmt: skip
    assert {hour for hour, number, surface in asked if (number, surface) == (1, "posts")} == {0, 3 * 24}
    reasons = dict(runs.ask("SELECT ig_username || ' ' || surface, due_reason FROM freshness"))
    assert reasons == {
        "user_1 posts": "goal", "user_1 stories": "quiet", "user_2 posts": "rate", "user_2 stories": "quiet"
    }  # fmt: skip
    assert {row[0] for row in Operator(tmp_path).in_state("SELECT selection FROM runs")} == {"due"}


async def test_nothing_due_is_no_run(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(3))
    await runs.sync()
    before, snapshot = len(runs.service.requests), (tmp_path / "analytics.duckdb").stat().st_mtime_ns
    runs.clock.days(-22 / 24)
    with pytest.raises(NothingChosen, match=r"^Nothing is due before 2026-03-02 02:15 UTC\. To sync now"):
        await runs.sync(due=True)
    assert len(runs.service.requests) == before
    assert (tmp_path / "analytics.duckdb").stat().st_mtime_ns == snapshot
    assert Operator(tmp_path).in_state("SELECT count(*) FROM runs") == [(1,)]
    plan = make_plan(runs.request(due=True), now=runs.now)
    assert describe_plan(plan) == "0 scans would run, about 0 requests; 2 would not (not_due)."


async def test_a_limit_a_day_lets_the_most_overdue_be_scanned_first(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, *(daily(3) for _ in range(4)))
    await runs.sync(days=2)
    runs.clock.days(1)
    spent: dict[str, Any] = {"due": True, "requests_per_day": 4, "surfaces": ("posts",)}
    report = await runs.sync(days=1 / 24, **spent)
    # The catalogue, and three of the accounts.
    assert (report.requests, report.outcomes) == (4, {OutcomeKind.COMPLETE: 4, OutcomeKind.DEFERRED: 1})
    [group] = report.failure_groups
    assert group.error_code == "request_budget"
    for due in (True, False):
        with pytest.raises(
            NothingChosen, match=r"no request is left of GRAMHOUSE_REQUESTS_PER_DAY until 2026-03-05 01:45 UTC\."
        ):
            await runs.sync(**spent | {"due": due})
    assert make_plan(runs.request(**spent | {"due": False}), now=runs.now)["requests"] == 0
    runs.clock.passed += 22 * 3600
    with pytest.raises(NothingChosen, match="no request is left"):
        await runs.sync(**spent)
    runs.clock.passed += 2 * 3600
    before = len(runs.service.requests)
    await runs.sync(**{**spent, "requests_per_day": 2})
    assert [one.number for one in runs.service.requests[before:]] == [None, 4]


@pytest.mark.long
@pytest.mark.parametrize("page", [1, 50])
async def test_a_million_accounts_make_fewer_than_a_thousand_batches(page: int) -> None:
    resources = RunResources(Mock(), Mock(), VirtualClock(), lambda: 0.5, str)
    run = Run(RunRequest(Settings()), resources, "run", (), choice=Choice(), cooldowns={})
    for begin in range(0, 1_000_000, page):
        run.add(ChosenAccount(str(number)) for number in range(begin, begin + page))
    run.end_list()
    batches = [batch async for batch in run.batches()]
    assert len(batches) < 1_000
    assert max(len(batch.accounts) for batch in batches) <= 1_000_000 / 80 + page
    numbers = [int(account.account_id) for batch in batches for account in batch.accounts]
    assert numbers == list(range(1_000_000))
    assert all(int(batch.accounts[0].account_id) == batch.first - 1 for batch in batches)
