"""How long runs and the archive are kept, and the tidying up at a run's end."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from connectors.warehouse.errors import WarehouseError
from connectors.warehouse.housekeeping import forget_runs, thin_outcomes, trim_archive
from connectors.warehouse.writer import Warehouse
from flows.steps import Say
from flows.words import count

# A hundred thousand accounts make a million outcomes a day, nearly all of them complete.
_GOOD_NEWS = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Keeping:
    """What outlives its use: runs for `runs`, and the pages in `archive` for `pages`; None keeps them for ever."""

    runs: timedelta | None = None
    archive: Path | None = None
    pages: timedelta | None = None


async def tidy(keeping: Keeping, warehouse: Warehouse, *, now: datetime, say: Say) -> None:
    """Forget what is older than it is to be kept.

    The run has landed all it had to by now, so what cannot be tidied is said and not raised.
    """
    if keeping.runs is not None:
        try:
            await warehouse.transact(thin_outcomes, before=now - min(keeping.runs, _GOOD_NEWS))
            forgotten = await warehouse.transact(forget_runs, before=now - keeping.runs)
        except WarehouseError as error:
            say(f"No run could be forgotten: {error}")
            forgotten = 0
        if forgotten:
            say(f"Forgot {count(forgotten, 'run')} older than {count(keeping.runs.days, 'day')}.")
    if keeping.archive is not None and keeping.pages is not None:
        try:
            trimmed = await warehouse.transact(trim_archive, keeping.archive, before=(now - keeping.pages).date())
        except WarehouseError as error:
            say(str(error))
            return
        if trimmed:
            say(f"Trimmed {count(trimmed, 'day')} of the archive older than {count(keeping.pages.days, 'day')}.")
