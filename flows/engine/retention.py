"""How long runs and rejected records are kept, and the tidying up at a run's end."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from connectors.warehouse.maintenance.housekeeping import (
    forget_quarantined,
    forget_runs,
    is_nearly_all,
    newest,
    run_days,
    thin_outcomes,
)
from connectors.warehouse.storage.errors import WarehouseError
from connectors.warehouse.warehouse import Warehouse
from flows.reporting.words import Say, count

# A hundred thousand accounts make a million outcomes a day, nearly all of them complete.
_GOOD_NEWS = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Keeping:
    """What outlives its use: `runs`, and records in `quarantine` since they were last met.

    None keeps them for ever.
    """

    runs: timedelta | None = None
    quarantine: timedelta | None = None


async def tidy(keeping: Keeping, warehouse: Warehouse, *, now: datetime, say: Say) -> None:
    """Forget what is older than it is to be kept, counted from the run before; nothing, if nearly everything would go.

    A failure here is logged and not raised, because the run has landed all its pages by now.
    """
    try:
        now = await warehouse.transact(newest, now=now)
        if keeping.runs is not None:
            await _tidy_runs(keeping.runs, warehouse, now, say)
    except WarehouseError as error:
        say(f"Could not delete old runs: {error}")
    try:
        if keeping.quarantine is not None:
            await _tidy_quarantine(keeping.quarantine, warehouse, now, say)
    except WarehouseError as error:
        say(f"Could not delete old records from quarantine: {error}")


async def _tidy_runs(keep: timedelta, warehouse: Warehouse, now: datetime, say: Say) -> None:
    days = await warehouse.transact(run_days)
    thin = min(keep, _GOOD_NEWS)
    if not is_nearly_all(days, before=(now - thin).date(), keep=thin.days):
        await warehouse.transact(thin_outcomes, before=now - thin)
    before = (now - keep).date()
    if is_nearly_all(days, before=before, keep=keep.days):
        say(_refusal("GRAMHOUSE_KEEP_RUNS", "runs", days, before))
        return
    forgotten = await warehouse.transact(forget_runs, before=now - keep)
    if forgotten:
        say(f"Deleted {count(forgotten, 'run')} older than {count(keep.days, 'day')}.")


async def _tidy_quarantine(keep: timedelta, warehouse: Warehouse, now: datetime, say: Say) -> None:
    # All records may well be old; a clock that is wrong shows in the runs.
    if is_nearly_all(await warehouse.transact(run_days), before=(now - keep).date(), keep=keep.days):
        say(
            "GRAMHOUSE_KEEP_QUARANTINE: no record was deleted, because nearly all runs are older."
            " Fix: check this machine's clock; if it is correct, no action is needed."
        )
        return
    deleted = await warehouse.transact(forget_quarantined, before=now - keep)
    if deleted:
        what = count(deleted, "record")
        say(f"Deleted {what} from quarantine: last seen more than {count(keep.days, 'day')} ago.")


def _refusal(setting: str, what: str, days: Collection[date], before: date) -> str:
    old = sum(day < before for day in days)
    return (
        f"{setting} would delete {old:,} of {len(days):,} {what}: that is nearly all of them, so none was deleted."
        " Fix: check this machine's clock; if it is correct, no action is needed."
    )
