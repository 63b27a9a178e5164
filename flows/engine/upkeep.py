"""Maintenance of a warehouse without API requests: publish, repair, compact, rebuild, delete old data."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.buckets.address import open_snapshot_bucket
from connectors.source.rate_limit import RateLimitBudget
from connectors.state.identity import move_times
from connectors.state.inbox import count_landings
from connectors.state.operations import begin_operation, end_operation
from connectors.state.progress import forget_order, lift_cooldowns
from connectors.state.runs import begin_command, delete_runs, end_command
from connectors.warehouse.maintenance.retention import (
    delete_old_runs,
    delete_quarantined,
    delete_repeated_outcomes,
    find_agreed_time,
)
from connectors.warehouse.queries.outcomes import lift_waits
from connectors.warehouse.storage.errors import WarehouseError, WarehouseUnusable
from flows.clock import SystemClock
from flows.config.settings import Settings
from flows.engine.files import check_exists, lock_state, open_pair
from flows.engine.publishing import Published, publish_snapshot
from flows.engine.resources import check_clock, check_writable, say_unfinished, steady_clock, writing
from flows.engine.warehouse import Warehouse
from flows.reporting.progress import notices
from flows.reporting.recording import STOPPED, command, record_failed_start, short
from flows.reporting.words import count
from models.clock import Ahead, Clock
from models.page_commit import PageCommit, ScopeCooldown
from models.runs import LONG_COOLDOWN, RunState

if TYPE_CHECKING:
    from connectors.warehouse.maintenance.compact_parts import CompactedParts
    from connectors.warehouse.maintenance.rebuild import PathCounts, Rebuilt

REBUILD = "rebuild"


@dataclass(frozen=True, slots=True)
class Opened:
    """The open warehouse, and the clock for what is stored in it."""

    warehouse: Warehouse
    clock: Clock


@asynccontextmanager
async def open_existing(settings: Settings, activity: str, *, trusts_clock: bool = False) -> AsyncIterator[Opened]:
    """Open the warehouse, which must exist, and merge all landed pages.

    Raises WarehouseBusy, and WarehouseUnusable, also if the clock is behind, unless this `trusts_clock`.
    """
    check_exists(settings.warehouse)
    files = {"warehouse": settings.warehouse, "snapshot": settings.snapshot}
    async with AsyncExitStack() as stack:
        with record_failed_start(activity, files):
            check_writable(settings)
            warehouse = await stack.enter_async_context(writing(settings, activity))
        async with recorded_command(warehouse, command(activity)):
            clock = SystemClock()
            yield Opened(warehouse, clock if trusts_clock else await steady_clock(warehouse, clock))


@asynccontextmanager
async def recorded_command(warehouse: Warehouse, kind: str) -> AsyncIterator[None]:
    """Record a command as running, and then how the block ended."""
    now = SystemClock().now
    number = await warehouse.write_state(begin_command, kind, pid=os.getpid(), now=now())
    try:
        yield
    except (asyncio.CancelledError, KeyboardInterrupt, Exception) as error:
        state, detail = RunState.INTERRUPTED, STOPPED
        if isinstance(error, Exception):
            state, detail = RunState.FAILED, short(error)
        # The first error is the one that matters.
        with suppress(WarehouseUnusable):
            await warehouse.write_state(end_command, number, state, now=now(), detail=detail)
        raise
    await warehouse.write_state(end_command, number, RunState.COMPLETE, now=now())


async def publish_opened(
    opened: Opened, settings: Settings, *, report: Path | None = None, may_show: bool = False
) -> Published:
    """Publish all merged data, and renew the report of the settings or else this one. Raises as `publish_snapshot`."""
    url = settings.snapshot_url()
    bucket = None if url is None else open_snapshot_bucket(url)
    now = opened.clock.now()
    return await publish_snapshot(opened.warehouse, settings, bucket, now=now, report=report, may_show=may_show)


async def publish_now(settings: Settings, *, may_show: bool = False) -> int:
    """Publish all landed pages; return the snapshot's size in bytes.

    With `may_show` the snapshot may show what the one before hid. Raises WarehouseBusy and WarehouseUnusable, the
    latter also if there is no warehouse yet.
    """
    async with open_existing(settings, "gramhouse publish") as opened:
        return (await publish_opened(opened, settings, may_show=may_show)).snapshot_bytes


async def repair_times(warehouse: Warehouse, *, now: datetime) -> Ahead | None:
    """Move times in the future to now, in the raw store, the warehouse and the state; return what they were.

    After a kill, the rest is moved by another repair. Raises WarehouseUnusable.
    """
    from connectors.warehouse.maintenance.clock import repair_clock, repair_raw  # noqa: PLC0415 - imports pyarrow

    await warehouse.alone(lambda _: repair_raw(warehouse.raw, now=now))
    seq = 1 + await warehouse.write_state(count_landings, 1)
    found = [
        await warehouse.write(repair_clock, seq=seq, now=now),
        await warehouse.write_state(move_times, now=now),
    ]
    moved = [each for each in found if each is not None]
    return Ahead(sum(each.count for each in moved), max(each.last for each in moved)) if moved else None


async def repair_now(settings: Settings) -> Ahead | None:
    """Move stored times in the future to now, and publish if there were any; return what they were.

    This trusts the clock. Raises WarehouseBusy and WarehouseUnusable, the latter also if there is no warehouse yet.
    """
    async with open_existing(settings, "gramhouse doctor --repair", trusts_clock=True) as opened:
        if (moved := await repair_times(opened.warehouse, now=opened.clock.now())) is not None:
            await publish_opened(opened, settings)
        return moved


async def lift_now(settings: Settings, *, until: datetime, now: datetime) -> None:
    """Lift cooldowns of more than `LONG_COOLDOWN` that end by `until`, the latest that the user agreed to; publish.

    Raises WarehouseBusy and WarehouseUnusable.
    """
    async with open_existing(settings, "gramhouse doctor --repair") as opened:
        await opened.warehouse.write_state(lift_cooldowns, after=now + LONG_COOLDOWN, until=until)
        # Without `until`: outcomes have the same times as their cooldowns only to within the drift of clocks.
        await opened.warehouse.write(lift_waits, after=now + LONG_COOLDOWN, now=now)
        await publish_opened(opened, settings)


async def keep_cooldown(settings: Settings, scope: str, seconds: float) -> bool:
    """Store how long a rate-limit scope must wait, so that runs do; return whether the warehouse could be written."""
    try:
        async with writing(settings.model_copy(update={"busy_wait": 0}), "gramhouse doctor") as warehouse:
            now = (await steady_clock(warehouse, SystemClock())).now()
            until = RateLimitBudget(scope, max_wait=0, not_before=seconds).resume_after(now, monotonic=0)
            await warehouse.land(PageCommit(cooldown=ScopeCooldown(scope, until, now)))
    except WarehouseError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Compacted:
    """The file's size in bytes before and after, and the result for the raw store."""

    before: int
    after: int
    raw: "CompactedParts"


def compact_now(settings: Settings, *, now: datetime) -> Compacted:
    """Rewrite the warehouse file compactly and sorted, and combine small parts of the raw store.

    A kill at any time leaves both as they were, or partly tidied. Raises WarehouseBusy and WarehouseUnusable, the
    latter also if there is no warehouse yet, or when the disk has no space for a second copy.
    """
    from connectors.warehouse.maintenance.compact_file import rewrite_file  # noqa: PLC0415
    from connectors.warehouse.maintenance.compact_parts import compact_parts  # noqa: PLC0415 - imports pyarrow

    path, activity = settings.warehouse, "gramhouse compact"
    keep = None if settings.keep_raw is None else timedelta(days=settings.keep_raw)
    check_exists(path)
    before = path.stat().st_size
    with lock_state(path, activity, now=now) as state:
        state.read(say_unfinished)
        state.read(check_clock, now=now)
        opening = open_pair(
            state, path, raw=settings.raw, mapping=settings.media_mapping(), paths=settings.page_paths()
        )
        with opening as files:
            until = None if keep is None else find_agreed_time(files.db, now=now) - keep
            parts = compact_parts(files.db, files.raw, now=now, before=until)
        rewrite_file(path)
    return Compacted(before, path.stat().st_size, parts)


async def count_paths_now(settings: Settings) -> "PathCounts":
    """Return how many items have a value at each path of the settings' mapping, and change nothing.

    Raises WarehouseBusy and WarehouseUnusable, the latter also if there is no warehouse yet.
    """
    from connectors.warehouse.maintenance.rebuild import count_paths  # noqa: PLC0415 - imports pyarrow

    async with open_existing(settings, "gramhouse rebuild --dry-run") as opened:
        return await opened.warehouse.read(count_paths, opened.warehouse.raw, settings.media_mapping())


async def rebuild_now(settings: Settings, *, force: bool) -> tuple["Rebuilt", int]:
    """Read the raw store and the quarantine again with the settings' mapping, and publish.

    Return the result, and the snapshot's size in bytes. If it is stopped before its end, nothing has changed. Raises
    WarehouseBusy and WarehouseUnusable, the latter also if there is no warehouse yet, and as `rebuild` does.
    """
    from connectors.warehouse.maintenance.rebuild import order_of, rebuild  # noqa: PLC0415 - imports pyarrow

    async with open_existing(settings, "gramhouse rebuild") as opened:
        warehouse, mapping = opened.warehouse, settings.media_mapping()
        # Until it is deleted, the part of the raw store that it writes is known to be its own.
        await warehouse.write_state(begin_operation, REBUILD, now=opened.clock.now())
        done = await warehouse.write(rebuild, warehouse.raw, mapping, take=warehouse.take_numbers, force=force)
        await warehouse.write_state(end_operation, REBUILD)
        if order_of(warehouse.mapping) != order_of(mapping):
            await warehouse.write_state(forget_order)
        return done, (await publish_opened(opened, settings)).snapshot_bytes


# How long all outcomes are kept: 100,000 accounts have half a million a day, and nearly all repeat the one before.
_ALL_OUTCOMES = timedelta(days=7)


async def delete_old(keep: timedelta, warehouse: Warehouse, *, now: datetime) -> None:
    """Delete old runs and quarantined records. Ages are counted from the time on which the last runs agree.

    A failure is logged and not raised, because the run has already landed all its pages.
    """
    # Imported here, because they import pyarrow.
    from connectors.state.published import read_published  # noqa: PLC0415
    from connectors.warehouse.publish.publish import StateRows, bring_state  # noqa: PLC0415

    try:
        await warehouse.write(bring_state, StateRows(*await warehouse.read_state(read_published)))
        now = await warehouse.read(find_agreed_time, now=now)
        await warehouse.write(delete_repeated_outcomes, before=now - min(keep, _ALL_OUTCOMES))
        runs = await warehouse.write(delete_old_runs, before=now - keep)
        await warehouse.write_state(delete_runs, runs)
        records = await warehouse.write(delete_quarantined, before=now - keep)
    except WarehouseError as error:
        notices.warning(f"Could not delete old runs: {error}")
        return
    deleted = [count(number, what) for number, what in ((len(runs), "run"), (records, "quarantined record")) if number]
    if deleted:
        notices.warning(f"Deleted {' and '.join(deleted)} older than {count(keep.days, 'day')}.")
