"""A wrong clock: one that is behind is refused, until a person says that it is right."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.warehouse.storage.errors import WarehouseUnusable
from flows.engine.upkeep import repair_times
from flows.reporting.run_report import RunReport
from models.runs import RunState
from tests.api.asked import Asked
from tests.api.listed import ListedApi
from tests.clocks import VirtualClock
from tests.runs import open_run_resources, stored, synced

pytestmark = pytest.mark.anyio

YEAR = timedelta(days=365)


@dataclass
class WrongClock(VirtualClock):
    """A clock whose wall time is wrong by `off`; its monotonic time is right."""

    off: timedelta = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.off


def service(clock: WrongClock, **changes: Any) -> ListedApi:  # noqa: ANN401 - fields of ListedApi
    return ListedApi(clock=clock, **({"accounts": 4, "posts": 5} | changes))


async def cut_short(folder: Path, served: ListedApi, after: int) -> None:
    served.fault = lambda _: RuntimeError("killed") if len(served.requests) > after else None
    with pytest.raises(RuntimeError, match="killed"):
        await synced(folder, served)


def codes(report: RunReport) -> list[str]:
    return [warning.code for warning in report.warnings]


async def refused(folder: Path, served: ListedApi) -> None:
    with pytest.raises(WarehouseUnusable, match="This machine's clock is behind"):
        await synced(folder, served)
    assert served.requests == []


async def repair(folder: Path, clock: WrongClock) -> None:
    async with open_run_resources(folder, service(clock)) as resources:
        assert await repair_times(resources.warehouse, now=clock.now()) is not None
        assert await repair_times(resources.warehouse, now=clock.now()) is None


async def test_a_run_cut_short_days_ahead_is_resumed_after_a_repair(tmp_path: Path) -> None:
    clock = WrongClock(off=timedelta(days=3))
    await cut_short(tmp_path, service(clock), after=10)
    clock.off = timedelta(0)
    clock.passed += 60
    await refused(tmp_path, service(clock))
    await repair(tmp_path, clock)
    report = await synced(tmp_path, service(clock))
    assert (report.state, codes(report), len(report.resumed_runs)) == (RunState.COMPLETE, [], 1)
    clock.passed += 86_400
    following = service(clock)
    report = await synced(tmp_path, following)
    assert (report.state, codes(report), report.resumed_runs) == (RunState.COMPLETE, [], ())
    assert len(following.requests) == 2 + 4 * 4


async def test_runs_after_one_from_the_future_and_a_repair_decide_removals(tmp_path: Path) -> None:
    clock = WrongClock(off=YEAR)
    await synced(tmp_path, service(clock))
    clock.off = timedelta(0)
    clock.passed += 86_400
    await refused(tmp_path, service(clock, posts=4))
    await repair(tmp_path, clock)
    now = clock.now().isoformat()
    for column in ("core.closed_scans.complete_at", "core.media.first_seen_at", "core.media.last_seen_at"):
        table, _, name = column.rpartition(".")
        assert stored(tmp_path, f"SELECT max({name}) <= '{now}' FROM {table}") == [(True,)]
    report = await synced(tmp_path, service(clock, posts=4))
    assert (report.state, codes(report)) == (RunState.COMPLETE, [])
    clock.passed += 86_400
    report = await synced(tmp_path, service(clock, posts=4))
    assert (report.state, report.media.removed) == (RunState.COMPLETE, 4)
    assert codes(report) == []


# What must hold for each row of the snapshot.
IN_ORDER = {
    "core.media_versions": "valid_from <= valid_to",
    "core.account_periods": "valid_from <= coalesce(valid_to, valid_from)",
    "core.media": "first_seen_at <= changed_at AND first_seen_at <= coalesce(removed_at, first_seen_at)",
    "core.accounts": "first_seen_at <= status_since AND status_since <= last_seen_at",
    "core.runs": "started_at <= ended_at AND ended_at <= coalesce(published_at, ended_at)",
    "core.run_outcomes": "started_at <= ended_at",
    "main.post_growth": "latest_value = (FROM media AS m SELECT m.like_count WHERE m.media_id = post_growth.media_id)",
    "main.published": "snapshot_at >= (SELECT max(ended_at) FROM core.runs)",
}
STEPS = {"an hour": timedelta(hours=-1), "forty days": timedelta(days=-40)}


def counting(clock: WrongClock, sync: int) -> ListedApi:
    """In each sync, posts have other captions and likes, the first post is gone, and an account has another status."""
    more = {"caption": f"sync {sync}", "like_count": 10 * sync}
    expired = frozenset({3} if sync % 2 else ())
    return service(clock, posts=12, expired=expired, change_posts=lambda items: [item | more for item in items[sync:]])


async def stepped(folder: Path, clock: WrongClock, step: timedelta, *, during: bool) -> RunReport:
    """Run a sync before or during which the clock steps; a clock that is behind is refused, and then corrected."""
    served = counting(clock, 4)

    def changed(_: Asked) -> None:
        clock.passed += 0.1
        if len(served.requests) >= 5:
            clock.off = step

    if during:
        served.fault = changed
        return await synced(folder, served)
    clock.off = step
    await refused(folder, served)
    clock.off = timedelta(0)
    return await synced(folder, served)


# `make long` tests each step at both times.
QUICK = {"forty days during a run"}
PLACES = [
    pytest.param(STEPS[step], during, id=name, marks=() if name in QUICK else pytest.mark.long)
    for step in STEPS
    for during, when in enumerate(("between runs", "during a run"))
    for name in [f"{step} {when}"]
]


@pytest.mark.parametrize(("step", "during"), PLACES)
async def test_whatever_a_clock_does_nothing_is_stamped_earlier_than_what_it_follows(
    tmp_path: Path, step: timedelta, *, during: bool
) -> None:
    clock = WrongClock()
    for sync in (1, 2, 3):
        clock.passed += 86_400
        await synced(tmp_path, counting(clock, sync))
    clock.passed += 60
    report = await stepped(tmp_path, clock, step, during=during)
    # Each sync changes the same field of all items.
    found = [code for code in codes(report) if code != "items_changed_by_one_field"]
    assert (report.state, found) == (RunState.COMPLETE, [])
    clock.off = timedelta(0)
    clock.passed += 86_400
    await synced(tmp_path, counting(clock, 5))
    with duckdb.connect(str(tmp_path / "analytics.duckdb"), read_only=True) as snapshot:
        for table, condition in IN_ORDER.items():
            wrong = snapshot.execute(f"FROM {table} WHERE NOT ({condition})").fetchall()
            assert wrong == [], f"{table}: {condition}"
