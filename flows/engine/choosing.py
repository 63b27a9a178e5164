"""What a run scans: the accounts that were chosen, or are due, and with how many requests."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from connectors.state.runs import count_requests, read_runs
from connectors.warehouse.queries.cadence import read_dues
from connectors.warehouse.queries.selection import choose_accounts
from connectors.warehouse.storage.connection import Database
from flows.engine.run_request import RunRequest
from flows.engine.warehouse import Warehouse
from flows.reporting.words import moment
from models.cadence import DAY, Dues, keep_due
from models.partition import CATALOGUE
from models.selection import ChosenAccount, NothingChosen, Selection


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run scans: known `accounts`, or if it `lists_catalogue` those that it lists.

    `dues` say when each feed is due. `limit` is the most requests that it makes; None without one.
    """

    accounts: Sequence[ChosenAccount]
    dues: Dues
    lists_catalogue: bool
    limit: int | None


def choose(db: Database, request: RunRequest, *, made: int, now: datetime) -> Choice:
    """Return what a run would scan now, due or not, by the warehouse or a snapshot. Raises SelectionError.

    `made` is the number of requests of the last 24 hours.
    """
    dues = read_dues(db, request.settings.goals(), scan_expired=request.settings.scan_expired)
    lists_catalogue = request.options.kind == "sync" and (not request.options.due or dues[CATALOGUE].is_due(now))
    return Choice(choose_accounts(db, request.selection), dues, lists_catalogue, request.limit(made))


async def choose_scans(request: RunRequest, warehouse: Warehouse, now: datetime) -> Choice:
    """Return what a run scans: of a sync of what is due, only that. Raises SelectionError and NothingChosen."""
    options, settings = request.options, request.settings
    if options.kind == "sync" and not options.due and not request.is_limited:
        # Nothing need be known of the accounts.
        return Choice((), {}, lists_catalogue=True, limit=None)
    made = await warehouse.read_state(count_requests, since=now - DAY)
    choice = await warehouse.read(choose, request, made=made, now=now)
    if options.kind == "backfill":
        if not choice.accounts:
            selection = request.selection
            only_failed = selection == Selection(failed=True, surfaces=selection.surfaces)
            why = "no unfinished scans" if only_failed else f"no accounts match {selection}"
            raise NothingChosen(f"Nothing to backfill: {why}.")
        return choice
    if options.due:
        due = keep_due(choice.accounts, choice.dues, now=now, scan_expired=settings.scan_expired)
        choice = replace(choice, accounts=tuple(due))
    if any(row["published_at"] is None for row in await warehouse.read_state(read_runs, limit=1)):
        # The last run was killed, or its snapshot was not published: this one makes up for that.
        return choice
    if choice.limit == 0:
        raise NothingChosen("Nothing is scanned: no request is left of GRAMHOUSE_REQUESTS_PER_DAY.")
    if not choice.lists_catalogue and not choice.accounts:
        wanted = (due.at for one, due in choice.dues.items() if one.surface in ("", *request.surfaces))
        first = moment(min(filter(None, wanted)))
        raise NothingChosen(f"Nothing is due before {first} UTC. To sync now, run `gramhouse sync`.")
    return choice
