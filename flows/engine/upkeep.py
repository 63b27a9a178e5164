"""Maintenance of a warehouse without API requests: publish, repair, rebuild, delete old data."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.buckets.address import open_snapshot_bucket
from connectors.source.rate_limit import RateLimitBudget
from connectors.state.progress import forget_order, lift_cooldowns
from connectors.state.runs import begin_command, delete_runs, end_command, mark_published
from connectors.warehouse.maintenance.compact import compact_store, rewrite_file, size_of
from connectors.warehouse.maintenance.future_times import MOVED, Ahead, repair
from connectors.warehouse.maintenance.housekeeping import (
    delete_old_runs,
    delete_quarantined,
    delete_repeated_outcomes,
    is_nearly_all,
    newest,
    run_days,
)
from connectors.warehouse.maintenance.opening import check_exists
from connectors.warehouse.raw.parts import mark_unlisted
from connectors.warehouse.runs.ledger import lift_waits
from connectors.warehouse.snapshot.ownership import Refusal, of_another_warehouse
from connectors.warehouse.snapshot.publish import publish
from connectors.warehouse.storage.connection import warehouse_id
from connectors.warehouse.storage.errors import WarehouseError, WarehouseUnusable
from flows.clock import SystemClock, new_id
from flows.config.settings import Settings
from flows.engine.files import lock_state, open_pair
from flows.engine.resources import build_request, check_writable, move_back, steady_clock, writing
from flows.engine.run_request import RunRequest
from flows.engine.warehouse import Warehouse
from flows.reporting.progress import notices
from flows.reporting.recording import STOPPED, command, recorded_start, short
from flows.reporting.words import count
from models.clock import Clock
from models.page_commit import PageCommit, ScopeCooldown
from models.runs import LONG_COOLDOWN, RunState

if TYPE_CHECKING:
    from connectors.buckets.snapshot_bucket import SnapshotBucket
    from connectors.warehouse.maintenance.rebuild import RebuildResult
    from connectors.warehouse.raw.compaction import CompactedParts


@dataclass(frozen=True, slots=True)
class Opened:
    """The open warehouse, the clock for what is stored in it, and the times in the future that it had."""

    warehouse: Warehouse
    clock: Clock
    moved: Ahead | None


@asynccontextmanager
async def open_existing(settings: Settings, activity: str, *, trusts_clock: bool = False) -> AsyncIterator[Opened]:
    """Open the warehouse, which must exist, merge all landed pages, and move times in the future back.

    With `trusts_clock` they are moved back even if they show that the clock is behind.
    """
    check_exists(settings.warehouse)
    files = {"warehouse": settings.warehouse, "snapshot": settings.snapshot}
    async with AsyncExitStack() as stack:
        with recorded_start(activity, files):
            check_writable(settings)
            warehouse = await stack.enter_async_context(writing(settings, activity))
        async with recorded_command(warehouse, command(activity)):
            system = SystemClock()
            clock = system if trusts_clock else await steady_clock(warehouse, system)
            now = clock.now()
            moved = await warehouse.write(repair, now=now)
            await move_back(warehouse, moved, now)
            if moved and not trusts_clock:
                notices.warning(f"{moved.after(now)} {MOVED} Fix: check that this machine's clock is set by NTP.")
            yield Opened(warehouse, clock, moved)


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


async def upload_refusal(bucket: "SnapshotBucket", warehouse: Warehouse) -> Refusal | None:
    """Return why the snapshot must not be uploaded: the bucket has that of another warehouse. None if it has not.

    Raises BucketError and WarehouseUnusable.
    """
    pointer = await bucket.pointer()
    if pointer is None or pointer.warehouse_id == await warehouse.read(warehouse_id):
        return None
    return of_another_warehouse(bucket.url)


@dataclass(frozen=True, slots=True)
class Published:
    """A snapshot's size in bytes, and the HTML report if it was renewed."""

    snapshot_bytes: int
    report: Path | None


async def publish_snapshot(
    warehouse: Warehouse,
    request: RunRequest,
    bucket: "SnapshotBucket | None",
    *,
    now: datetime,
    new_id: Callable[[], str],
) -> Published:
    """Publish the merged data, upload it to the bucket if there is one, and renew the request's report, if any.

    Raises BucketError and WarehouseUnusable.
    """
    await warehouse.copy_open_scans()
    size = await warehouse.alone(
        publish,
        request.snapshot,
        at=now,
        version=request.version,
        stale_after=request.stale_after,
        full_refresh_every=request.full_refresh_every,
        hide=request.hide,
    )
    if bucket is not None:
        if (refused := await upload_refusal(bucket, warehouse)) is not None:
            raise WarehouseUnusable(str(refused))
        await bucket.publish(request.snapshot, await warehouse.read(warehouse_id), at=now, new_id=new_id)
    # A run before this is not resumed any more.
    await warehouse.write_state(mark_published, now=now)
    await warehouse.write(mark_unlisted, at=now)
    if request.report is None:
        return Published(size, None)
    # Imported here, because most runs have no report.
    from flows.reporting.page.write import renew  # noqa: PLC0415

    return Published(size, await renew(request.snapshot, request.report))


async def publish_opened(opened: Opened, settings: Settings, *, report: Path | None = None) -> Published:
    """Publish all merged data, and renew the report of the settings or else this one. Raises as `publish_snapshot`."""
    url = settings.snapshot_url()
    bucket = None if url is None else open_snapshot_bucket(url)
    request, now = build_request(settings), opened.clock.now()
    request = replace(request, report=request.report or report)
    return await publish_snapshot(opened.warehouse, request, bucket, now=now, new_id=new_id)


async def publish_now(settings: Settings) -> int:
    """Publish all landed pages; return the snapshot's size in bytes.

    Raises WarehouseBusy and WarehouseUnusable, the latter also if there is no warehouse yet.
    """
    async with open_existing(settings, "gramhouse publish") as opened:
        return (await publish_opened(opened, settings)).snapshot_bytes


async def repair_now(settings: Settings) -> Ahead | None:
    """Move stored times in the future back, and publish if there were any; return what they were.

    This trusts the clock even if most runs contradict it. Raises WarehouseBusy and WarehouseUnusable, the latter also
    if there is no warehouse yet.
    """
    async with open_existing(settings, "gramhouse doctor --repair", trusts_clock=True) as opened:
        if opened.moved:
            await publish_opened(opened, settings)
        return opened.moved


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
    """The file's size in bytes before (including its log) and after, and the result for the raw store."""

    before: int
    after: int
    raw: "CompactedParts"


def compact_now(settings: Settings, *, now: datetime) -> Compacted:
    """Rewrite the warehouse file compactly and sorted, and combine small parts of the raw store.

    Raises WarehouseBusy and WarehouseUnusable, the latter also if there is no warehouse yet, or when the disk has no
    space for a second copy.
    """
    path, activity = settings.warehouse, "gramhouse compact"
    keep = None if settings.keep_raw is None else timedelta(days=settings.keep_raw)
    check_exists(path)
    before = size_of(path)
    with lock_state(path, activity, now=now, pause=time.sleep) as state:
        opening = open_pair(
            state, path, activity, now=now, pause=time.sleep, raw=settings.raw, mapping=settings.media_mapping()
        )
        with opening as files:
            parts = compact_store(files.connection, now=now, keep=keep)
        rewrite_file(path)
    return Compacted(before, path.stat().st_size, parts)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result for stored items, numbers of records of the quarantine, and the snapshot's size in bytes.

    `imported` became rows, `outdated` were deleted because their item was seen later, `quarantined` remain.
    """

    stored: "RebuildResult"
    imported: int
    outdated: int
    quarantined: int
    snapshot_bytes: int


async def rebuild_now(settings: Settings) -> Rebuilt:
    """Decode the raw store and the quarantine again with the settings' mapping, and publish.

    If it is stopped, records that are not yet decoded are still in quarantine.

    Raises WarehouseBusy and WarehouseUnusable, the latter also if there is no warehouse yet.
    """
    # Imported here, because they import pyarrow.
    from connectors.warehouse.maintenance.quarantined import count_quarantined, import_batch  # noqa: PLC0415
    from connectors.warehouse.maintenance.rebuild import rebuild_stored  # noqa: PLC0415
    from connectors.warehouse.storage.declared import ITEM_TABLES  # noqa: PLC0415

    async with open_existing(settings, "gramhouse rebuild") as opened:
        warehouse, imported, outdated = opened.warehouse, 0, 0
        await warehouse.write_state(forget_order)
        await warehouse.copy_open_scans()
        stored = await warehouse.write(rebuild_stored, settings.media_mapping())
        for table in ITEM_TABLES:
            after = None
            while batch := await warehouse.write(import_batch, table, after=after, take=warehouse.take_numbers):
                # Confirms the part of the raw store that the batch wrote.
                await warehouse.merge()
                after, imported, outdated = batch.last, imported + batch.rows, outdated + batch.outdated
        left = await warehouse.read(count_quarantined)
        return Rebuilt(stored, imported, outdated, left, (await publish_opened(opened, settings)).snapshot_bytes)


# How long all outcomes are kept: 100,000 accounts have half a million a day, and nearly all repeat the one before.
_ALL_OUTCOMES = timedelta(days=7)


async def delete_old(keep: timedelta, warehouse: Warehouse, *, now: datetime) -> None:
    """Delete old runs and quarantined records, but nothing if nearly all runs would be deleted.

    Ages are counted from the end of the run before this one (see `newest`), in case the clock has jumped ahead. A
    failure is logged and not raised, because the run has already landed all its pages.
    """
    try:
        now, days = await warehouse.read(newest, now=now), await warehouse.read(run_days)
        keep_all = min(keep, _ALL_OUTCOMES)
        if not is_nearly_all(days, before=(now - keep_all).date(), keep=keep_all.days):
            await warehouse.write(delete_repeated_outcomes, before=now - keep_all)
        before = (now - keep).date()
        # Quarantined records may all be old, but runs are not, unless the clock is wrong.
        if is_nearly_all(days, before=before, keep=keep.days):
            old = sum(day < before for day in days)
            notices.warning(
                f"GRAMHOUSE_KEEP_RUNS would delete {old:,} of {len(days):,} runs: that is nearly all of them, so"
                " nothing was deleted. Fix: check this machine's clock; if it is correct, no action is needed."
            )
            return
        runs = await warehouse.write(delete_old_runs, before=now - keep)
        await warehouse.write_state(delete_runs, runs)
        records = await warehouse.write(delete_quarantined, before=now - keep)
    except WarehouseError as error:
        notices.warning(f"Could not delete old runs: {error}")
        return
    deleted = [count(number, what) for number, what in ((len(runs), "run"), (records, "quarantined record")) if number]
    if deleted:
        notices.warning(f"Deleted {' and '.join(deleted)} older than {count(keep.days, 'day')}.")
