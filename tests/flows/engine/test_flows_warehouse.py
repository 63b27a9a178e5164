"""Opening a warehouse: waiting for its lock; and a wrong clock, which is refused until a person repairs the times."""

import asyncio
import gc
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.warehouse.raw.parts import SCHEMA, list_parts, write_part
from connectors.warehouse.storage import holder, identity
from connectors.warehouse.storage.holder import hold
from flows.clock import SteadyClock
from flows.config.settings import Settings, load
from flows.engine import warehouse as engine
from flows.engine.upkeep import repair_times
from flows.engine.warehouse import open_warehouse
from flows.reporting.run_report import RunReport
from models.checkpoint import ScopeCooldown
from models.files import WarehouseBusy, WarehouseUnusable
from models.runs import RunState
from tests.api.asked import Asked
from tests.api.listed import ListedApi
from tests.clocks import START, VirtualClock
from tests.operator import Operator
from tests.runs import open_run_resources, synced
from tests.warehouse.rig import opened_with_state

pytestmark = pytest.mark.anyio


class Freeing(VirtualClock):
    """A clock with a lock, which its holder releases after some seconds."""

    def __init__(self, lock: ExitStack, seconds: float) -> None:
        super().__init__()
        self.lock, self.seconds = lock, seconds

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        if self.passed >= self.seconds:
            self.lock.close()


# How long the lock is held, the patience, the sleeps meanwhile, and the ends of the lines that say so.
WAITS: dict[str, tuple[float, float, list[float], list[str]]] = {
    "free": (0, 60, [], []),
    "freed": (5, 60, [1] * 5, [", since 02:15). Waiting up to 1 min for the lock."]),
    "held for too long": (100, 3.5, [1, 1, 1, 0.5], [", since 02:15). Waiting up to 3.5 s for the lock."]),
    "no patience": (100, 0, [], []),
}


@pytest.mark.parametrize("case", WAITS)
async def test_a_command_waits_for_a_limited_time_and_names_the_holder_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str], case: str
) -> None:
    held_for, patience, slept, lines = WAITS[case]
    monkeypatch.setattr(holder, "_PAUSE", 0.0)
    settings, lock = load(busy_wait=patience, warehouse=tmp_path / "w.duckdb"), ExitStack()
    clock = Freeing(lock, held_for)
    with lock, nullcontext() if held_for <= patience else pytest.raises(WarehouseBusy, match=r"Fix: wait until"):
        if held_for:
            lock.enter_context(hold(settings.warehouse, "gramhouse sync", since="02:15", pause=lambda _: None))
        async with open_warehouse(settings, "gramhouse publish", clock):
            pass
    assert clock.slept == slept
    assert [line.endswith(end) for line, end in zip(said, lines, strict=True)] == [True] * len(lines)
    assert all("w.duckdb is held by gramhouse sync (process" in line for line in said[:1])


@dataclass
class WrongClock(VirtualClock):
    """A clock whose wall time is wrong by `off`; its monotonic time is right."""

    off: timedelta = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.off


def service(clock: WrongClock, **changes: Any) -> ListedApi:  # noqa: ANN401 - fields of ListedApi
    return ListedApi(clock=clock, **({"accounts": 4, "posts": 5} | changes))


def end(report: RunReport) -> tuple[RunState, list[str]]:
    return report.state, [each.code for each in report.warnings if each.code != "items_changed_by_one_field"]


COMPLETE = (RunState.COMPLETE, list[str]())


async def test_runs_after_one_from_the_future_and_a_repair_decide_removals(tmp_path: Path) -> None:
    clock = WrongClock(off=timedelta(days=365))
    await synced(tmp_path, service(clock))
    clock.off = timedelta(0)
    clock.passed += 60
    served = service(clock)
    with pytest.raises(WarehouseUnusable, match="This machine's clock is behind"):
        await synced(tmp_path, served)
    assert served.requests == []
    async with open_run_resources(tmp_path, served) as resources:
        assert repair_times(resources.warehouse.files, now=clock.now()) is not None
        assert repair_times(resources.warehouse.files, now=clock.now()) is None
    for column in ("closed_scans.complete_at", "media.first_seen_at", "media.last_seen_at"):
        table, _, name = column.partition(".")
        latest = Operator(tmp_path).inside(f"SELECT max({name}) <= '{clock.now().isoformat()}' FROM core.{table}")
        assert latest == [(True,)], column
    for removed in (0, 4):
        clock.days(1)
        report = await synced(tmp_path, service(clock, posts=4))
        assert (end(report), report.media["removed"]) == (COMPLETE, removed)


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


def counting(clock: WrongClock, sync: int) -> ListedApi:
    """In each sync, posts have other captions and likes, the first post is gone, and an account has another status."""
    more = {"caption": f"sync {sync}", "like_count": 10 * sync}
    expired = frozenset({3} if sync % 2 else ())
    return service(clock, posts=12, expired=expired, change_posts=lambda items: [item | more for item in items[sync:]])


def test_a_clock_that_was_set_back_goes_on() -> None:
    clock = WrongClock()
    steady = SteadyClock(clock, clock.now())
    clock.off = timedelta(minutes=-10)
    for seconds in (60, 540):
        clock.passed = seconds
        assert steady.now() == START + timedelta(seconds=seconds)


async def test_whatever_a_clock_does_nothing_is_stamped_earlier_than_what_it_follows(tmp_path: Path) -> None:
    clock, step = WrongClock(), timedelta(days=-40)
    for sync in (1, 2, 3, 4, 5):
        clock.passed += 60 if sync == 4 else 86_400
        served = counting(clock, sync)

        def fault(_: Asked, served: ListedApi = served, step: timedelta = step if sync == 4 else timedelta(0)) -> None:
            clock.passed += 0.1
            clock.off = step if len(served.requests) >= 5 else timedelta(0)

        served.fault = fault
        assert end(await synced(tmp_path, served)) == COMPLETE
        clock.off = timedelta(0)
    with duckdb.connect(str(tmp_path / "analytics.duckdb"), read_only=True) as snapshot:
        for table, condition in IN_ORDER.items():
            wrong = snapshot.execute(f"FROM {table} WHERE NOT ({condition})").fetchall()
            assert wrong == [], f"{table}: {condition}"


@pytest.mark.parametrize("place", ["warehouse", "state"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_kill_while_files_get_a_new_token_leaves_files_that_belong_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, number: int
) -> None:
    module = identity if place == "warehouse" else engine
    settings, write, left = Settings(warehouse=tmp_path / "w.duckdb"), module.write_token, [number]

    def dies(*given: Any, **named: Any) -> None:  # noqa: ANN401 - as write_token
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        write(*given, **named)

    with engine.open_files(settings, "gramhouse sync", now=START):
        pass
    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr(module, "write_token", dies)
        with engine.open_files(settings, "gramhouse sync", now=START):
            pass
    with engine.open_files(settings, "gramhouse sync", now=START) as files:
        assert files.path.exists()


def test_the_part_of_a_merge_that_was_killed_is_gone_before_its_landings_are_merged(tmp_path: Path) -> None:
    with opened_with_state(tmp_path / "w.duckdb") as rig:
        rig.begin_run()
        # With another mapping its item can be read: now it has no part.
        rig.begin().close({"uuid": "1"})
        rig.land()
        write_part(rig.files.raw, 1, SCHEMA.empty_table())
        assert [*list_parts(rig.files.raw)] == [1]
    with opened_with_state(tmp_path / "w.duckdb") as rig:
        assert rig.rows("count(*)", "quarantine") == [(1,)]
        assert list_parts(rig.files.raw) == {}


async def test_what_fails_to_land_when_nobody_waits_any_more_prints_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    monkeypatch.setattr(engine, "land", lambda *_: 1 / 0)
    async with open_warehouse(load(warehouse=tmp_path / "w.duckdb"), "gramhouse sync", VirtualClock()) as warehouse:
        landing = asyncio.create_task(warehouse.land(ScopeCooldown("account_catalog", START)))
        await asyncio.sleep(0)
        landing.cancel()
        with suppress(asyncio.CancelledError):
            await landing
    gc.collect()
    assert told == []
