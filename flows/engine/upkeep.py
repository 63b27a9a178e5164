"""What is done to a warehouse without asking the API: publish it, decode it again."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

from connectors.store.snapshot_bucket import open_snapshot_bucket
from connectors.warehouse.maintenance.future_times import Repair, repair, unknown_age
from connectors.warehouse.maintenance.quarantine_retry import Plan, Staying, plan_retry, retry, staying
from connectors.warehouse.maintenance.rebuild import Reread, rebuild_stored
from connectors.warehouse.runs import ledger
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.warehouse import Warehouse
from flows.config.release import release
from flows.config.settings import Settings
from flows.engine.clock import SystemClock
from flows.engine.pipeline import new_id
from flows.engine.resources import check_raw, check_report, check_snapshot, writing
from flows.engine.snapshot_upload import upload
from flows.reporting.recording import command, recorded
from flows.reporting.renewing import renew
from flows.reporting.words import Say
from models.runs import RunState

_log = logging.getLogger(__name__)


@asynccontextmanager
async def _standing(settings: Settings, activity: str, say: Say = _log.info) -> AsyncIterator[Warehouse]:
    """Open the warehouse there is, with all that has landed merged."""
    if not settings.warehouse.exists():
        message = f"There is no warehouse at {settings.warehouse} yet. Fix: `gramhouse sync` creates it."
        raise WarehouseUnusable(message)
    check_snapshot(settings.snapshot_file(), settings.warehouse)
    check_report(settings)
    check_raw(settings)
    async with writing(settings, activity, say=say) as warehouse:
        with recorded(settings.snapshot_file(), command(activity), now=SystemClock().now, say=say) as recording:
            await warehouse.merge()
            await warehouse.transact(ledger.mark_interrupted)
            yield warehouse
            recording.end(RunState.COMPLETE)


async def _publish(warehouse: Warehouse, settings: Settings, say: Say = _log.warning) -> int:
    at = SystemClock().now()
    size = await warehouse.publish(
        settings.snapshot_file(),
        at=at,
        version=release(),
        stale_after=timedelta(seconds=settings.stale_after),
        full_refresh_every=timedelta(days=settings.full_refresh_every),
    )
    if (url := settings.snapshot_url()) is not None:
        await upload(open_snapshot_bucket(url), warehouse, settings.snapshot_file(), at=at, new_id=new_id)
    if settings.report is not None:
        await renew(settings.snapshot_file(), settings.report, say=say)
    return size


@asynccontextmanager
async def _run(warehouse: Warehouse, kind: str) -> AsyncIterator[str]:
    """Enter a run that asks the API for nothing, and close it: complete, or interrupted when the block fails."""
    clock, run_id = SystemClock(), new_id()
    await warehouse.transact(ledger.begin, run_id, kind, now=clock.now(), within=timedelta(0), version=release())

    async def close(state: RunState) -> None:
        await warehouse.transact(ledger.end, run_id, state, now=clock.now())

    try:
        yield run_id
    except BaseException:
        # A file that failed may refuse this, too: the next run then finds this one without an end.
        with suppress(WarehouseUnusable):
            await close(RunState.INTERRUPTED)
        raise
    await close(RunState.COMPLETE)


async def publish_now(settings: Settings, *, say: Say = _log.info) -> int:
    """Publish what has landed; return the snapshot's size in bytes.

    Raises WarehouseBusy and WarehouseUnusable, the latter also when there is no warehouse yet.
    """
    async with _standing(settings, "gramhouse publish", say) as warehouse:
        return await _publish(warehouse, settings, say)


async def repair_now(settings: Settings, *, now: datetime) -> Repair:
    """Move back what lies in the future, whatever this machine's clock was, and publish where something did.

    Raises WarehouseBusy and WarehouseUnusable, the latter also when there is no warehouse yet.
    """
    async with _standing(settings, "gramhouse doctor --repair") as warehouse:
        unknown = unknown_age(now, timedelta(seconds=settings.resume_within))
        found = await warehouse.transact(repair, now=now, unknown=unknown, insist=True)
        if found.count:
            await _publish(warehouse, settings)
        return found


async def retry_now(settings: Settings) -> tuple[Plan, tuple[Staying, ...], int]:
    """Read the quarantined media items again, and publish.

    It is a run of its own in the ledger. Return what became rows, what stays in quarantine, and the snapshot's size in
    bytes. Should it be stopped, what it had not come to is still in quarantine.

    Raises WarehouseBusy and WarehouseUnusable, the latter also when there is no warehouse yet.
    """
    async with _standing(settings, "gramhouse quarantine --retry") as warehouse:
        async with _run(warehouse, "quarantine_retry") as run_id:
            plan = await warehouse.transact(plan_retry)
            for batch in plan.batches:
                await warehouse.transact(retry, batch, run_id=run_id, now=SystemClock().now())
        stay = await warehouse.transact(staying)
        return plan, stay, await _publish(warehouse, settings)


async def rebuild_now(settings: Settings) -> tuple[Reread, int]:
    """Decode the raw store again with the settings' mapping, and publish; also return the snapshot's size in bytes.

    Raises WarehouseBusy and WarehouseUnusable, the latter also when there is no warehouse yet.
    """
    async with _standing(settings, "gramhouse rebuild") as warehouse:
        reread = await warehouse.transact(rebuild_stored, settings.media_mapping())
        return reread, await _publish(warehouse, settings)
