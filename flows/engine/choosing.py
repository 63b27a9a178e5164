"""What a run scans: the accounts that were chosen, or are due, and with how many requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from connectors.state.runs import count_requests, read_runs
from connectors.warehouse.queries.cadence import read_dues
from connectors.warehouse.queries.selection import choose_accounts
from flows.engine.run_request import RunRequest
from flows.engine.warehouse import Warehouse
from flows.reporting.words import moment
from models.cadence import DAY, Dues, keep_due
from models.selection import ChosenAccount, NothingChosen, Selection


@dataclass(frozen=True, slots=True)
class DueScans:
    """What a run scans: `accounts`, or if these are None, those that it lists; and at most how many requests it makes.

    `dues` are read only for --due, and if the number of requests is limited.
    """

    accounts: Sequence[ChosenAccount] | None
    dues: Dues
    most_requests: int | None


async def find_due(request: RunRequest, warehouse: Warehouse, now: datetime) -> DueScans:
    """Return what a run scans. Raises SelectionError and NothingChosen."""
    settings = request.settings
    if request.options.kind == "backfill":
        return DueScans(await _choose(request.selection, warehouse), {}, None)
    if not (request.options.due or request.is_limited):
        return DueScans(None, {}, None)
    most = request.limit(await warehouse.read_state(count_requests, since=now - DAY))
    dues = await warehouse.read(read_dues, settings.goals(), scan_expired=settings.scan_expired)
    accounts: list[ChosenAccount] | None = None
    if not request.lists_catalogue(dues, now):
        known = await warehouse.read(choose_accounts, request.selection)
        accounts = [*keep_due(known, dues, now=now, scan_expired=settings.scan_expired)]
    if request.options.due and not await _is_unpublished(warehouse):
        if most == 0:
            raise NothingChosen("Nothing is scanned: no request is left of GRAMHOUSE_REQUESTS_PER_DAY.")
        if accounts == []:
            wanted = (due.at for one, due in dues.items() if one.surface in ("", *request.surfaces))
            raise NothingChosen(f"Nothing is due before {moment(min(filter(None, wanted)))} UTC.")
    return DueScans(accounts, dues, most)


async def _is_unpublished(warehouse: Warehouse) -> bool:
    """Whether the last run was killed, or its snapshot was not published: the next one makes up for that."""
    return any(row["published_at"] is None for row in await warehouse.read_state(read_runs, limit=1))


async def _choose(selection: Selection, warehouse: Warehouse) -> Sequence[ChosenAccount]:
    """Return the accounts that a backfill scans. Raises SelectionError and NothingChosen."""
    found = await warehouse.read(choose_accounts, selection)
    if not found:
        only_failed = selection == Selection(failed=True, surfaces=selection.surfaces)
        why = "no unfinished scans" if only_failed else f"no accounts match {selection}"
        raise NothingChosen(f"Nothing to backfill: {why}.")
    return found
