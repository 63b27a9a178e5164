"""What `sync --plan` and `backfill --dry-run` say is what the run then does."""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from flows.engine.plan import Plan, describe_plan, make_plan
from flows.pipeline import run_sync
from models.selection import Selection
from tests.api.faults import refuse
from tests.api.listed import ListedApi, daily
from tests.runs import DailyRuns, open_run_resources, request

pytestmark = pytest.mark.anyio


def reasons(plan: Plan) -> Counter[tuple[str, str, str]]:
    return Counter((scan.surface, scan.scan, scan.reason) for scan in plan.scans)


async def test_a_quiet_sync_makes_the_requests_of_its_plan(tmp_path: Path) -> None:
    runs = DailyRuns(tmp_path, daily(200, pins=[3, 90]))
    await runs.sync()
    done = []
    for _ in range(9):
        runs.grow()
        plan = make_plan(runs.request(), now=runs.now)
        await runs.sync()
        [(outcome,)] = runs.ask("SELECT outcome FROM freshness WHERE surface = 'posts'")
        [posts] = [scan for scan in plan.scans if scan.surface == "posts"]
        assert ("complete" if posts.scan == "full" else "recent") == outcome
        assert abs(posts.requests - len(runs.cursors)) <= 1
        done.append((posts.scan, posts.reason))
    assert set(done) == {("recent", "new_posts"), ("full", "due")}


async def test_a_plan_says_why_scans_are_not_made(tmp_path: Path) -> None:
    limited = refuse("rate_limited", retry_after=7200)
    service = ListedApi(accounts=4, posts=120, expired=frozenset({3}))
    service.fault = lambda asked: limited if asked.is_posts(4) else None
    async with open_run_resources(tmp_path, service) as resources:
        await run_sync(request(tmp_path), resources)
        now = resources.clock.now()
        # The warehouse is still locked here.
        plan = make_plan(request(tmp_path), now=now)
        assert (plan.catalogue, reasons(plan)) == (
            2,
            {
                ("posts", "full", "always"): 2,
                ("stories", "full", "always"): 2,
                ("posts", "none", "token_expired"): 1,
                ("stories", "none", "token_expired"): 1,
                ("posts", "none", "cooldown"): 1,
                ("stories", "none", "cooldown"): 1,
            },
        )
        [until] = {scan.resume_after for scan in plan.scans if scan.reason == "cooldown"}
        assert until is not None
        assert until > now + timedelta(hours=1)
        everything = make_plan(request(tmp_path, selection=Selection(everything=True)), now=now)
        assert (everything.catalogue, reasons(everything)) == (0, reasons(plan))
        assert describe_plan(everything) == (
            f"4 scans would run, about {everything.requests} requests; 4 would not (cooldown, token_expired)."
        )
        # Within the budget a run waits; later there is nothing to wait for.
        patient = make_plan(request(tmp_path, max_wait=90_000), now=now)
        assert patient.longest_wait == pytest.approx((until - now).total_seconds())
        for one in (patient, make_plan(request(tmp_path), now=until)):
            assert not [scan for scan in one.scans if scan.reason == "cooldown"]
        expired_too = make_plan(request(tmp_path, scan_expired=True), now=until)
        assert {scan.scan for scan in expired_too.scans} == {"full"}
