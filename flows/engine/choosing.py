"""What a run scans: the accounts that were chosen, or are due, in batches, and with how many requests."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from connectors.state.runs import count_requests, read_runs
from connectors.warehouse.queries.progress import read_dues
from connectors.warehouse.queries.selection import choose_accounts
from connectors.warehouse.storage.connection import Database
from flows.engine.run_request import RunRequest
from flows.engine.warehouse import Warehouse
from flows.reporting.progress import Progress
from flows.reporting.words import moment
from models.feeds import CATALOGUE, SURFACES, Partition, media
from models.selection import DAY, ChosenAccount, Dues, NothingChosen, Selection, keep_due, sort_overdue

# A batch has 1/80 of the accounts listed so far. The first batches are one page each, and a million accounts result in
# 530 batches, or 900 if each page has a single account: below the thousand task runs that a Prefect server records
# without loss.
_SHARE = 80

# The size of a batch if more accounts are known at once, as in a backfill.
_FULL_BATCH = 250


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


@dataclass(frozen=True, slots=True)
class Batch:
    """Accounts of a run, of which the first has the number `first`, from 1."""

    first: int
    accounts: tuple[ChosenAccount, ...]

    def __str__(self) -> str:
        due = {surface for account in self.accounts for surface in account.surfaces}
        what = " and ".join(surface for surface in SURFACES if surface in due)
        return f"{what}, accounts {self.first} to {self.first + len(self.accounts) - 1}"


class AccountBatcher:
    """Divides listed accounts into batches, and knows which of their partitions have no outcome yet.

    An account that is listed more than once is scanned once per run. With --due only what is due of them is. If the
    number of requests is limited, all are one batch, the most overdue first. None follows the last batch.
    """

    def __init__(self, request: RunRequest, choice: Choice, progress: Progress, *, now: datetime) -> None:
        """Count the accounts in the progress of a run that begins now."""
        self.batches = asyncio.Queue[Batch | None]()
        self._request = request
        self._choice = choice
        self._progress = progress
        self._now = now
        self._waiting: list[ChosenAccount] = []
        # The surfaces of each account that have no outcome; the catalogue's account and surface are "".
        self._due: dict[str, tuple[str, ...]] = {"": ("",)} if choice.lists_catalogue else {}

    @property
    def listed(self) -> int:
        """Return the number of accounts so far."""
        return self._progress.accounts

    def add(self, accounts: Iterable[ChosenAccount]) -> None:
        """Add listed accounts."""
        if self._request.options.due:
            scan_expired = self._request.settings.scan_expired
            accounts = keep_due(accounts, self._choice.dues, now=self._now, scan_expired=scan_expired)
        for account in accounts:
            if account.account_id not in self._due:
                self._due[account.account_id] = account.surfaces
                self._waiting.append(account)
                self._progress.accounts += 1
        if not self._request.is_limited and len(self._waiting) >= self.listed // _SHARE:
            self._form_batches(max(_FULL_BATCH, self.listed // _SHARE))

    def close(self) -> None:
        """Signal that all accounts are listed: the remaining ones become a batch, however small."""
        self._progress.catalogue_complete = True
        if self._request.is_limited:
            self._waiting = sort_overdue(self._waiting, self._choice.dues)
        self._form_batches(max(1, len(self._waiting)))
        self.batches.put_nowait(None)

    def _form_batches(self, most: int) -> None:
        before = self.listed - len(self._waiting)
        for first in range(0, len(self._waiting), most):
            self.batches.put_nowait(Batch(before + first + 1, tuple(self._waiting[first : first + most])))
        self._waiting.clear()

    def settle(self, partition: Partition) -> None:
        """Note that a partition has its outcome."""
        left = self._due[partition.account_id]
        self._due[partition.account_id] = tuple(surface for surface in left if surface != partition.surface)

    def unsettled(self) -> Iterator[Partition]:
        """Yield the listed partitions that have no outcome."""
        for account_id, surfaces in list(self._due.items()):
            for surface in surfaces:
                yield media(account_id, surface) if account_id else CATALOGUE
