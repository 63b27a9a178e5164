"""Scans accounts in batches while the catalogue is still being listed."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from connectors.source.endpoints import account_scope
from connectors.source.errors import UNKNOWN_STATUS
from flows.engine.concurrency import fail_fast_group
from flows.engine.partition_scan import PartitionScan
from flows.engine.run_context import Landed, RunContext, ScanContext
from flows.engine.scan_depth import Depths
from models.checkpoint import Checkpoint
from models.page_commit import PageCommit
from models.partition import SURFACES, Partition, Surface, media
from models.runs import Outcome, OutcomeKind, Tally

# A batch has 1/80 of the accounts listed so far. The first batches are one page each, and a million accounts result in
# 530 batches, or 900 if each page has a single account: below the thousand task runs that a Prefect server records
# without loss.
_SHARE = 80

# The size of a batch if more accounts are known at once, as in a backfill.
_KNOWN_AT_ONCE = 250


@dataclass(frozen=True, slots=True)
class ListedAccount:
    """An account that a run scans: its id, whether its token has expired, and the surfaces that are due.

    `listed_as` is the id as the API writes it, if that differs. An account with an `unknown_status` is not scanned.
    """

    account_id: str
    expired: bool
    surfaces: tuple[Surface, ...] = SURFACES
    listed_as: str | None = None
    unknown_status: str | None = None
    ig_username: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Accounts number `first` to `last` of a run, counted from 1."""

    first: int
    accounts: tuple[ListedAccount, ...]

    @property
    def last(self) -> int:
        """Return the number of the last account."""
        return self.first + len(self.accounts) - 1

    def __str__(self) -> str:
        due = {surface for account in self.accounts for surface in account.surfaces}
        what = " and ".join(surface for surface in SURFACES if surface in due)
        return f"{what}, accounts {self.first} to {self.last}"


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The result of a batch: outcomes by kind, and the pages and items landed."""

    batch: Batch
    outcomes: Tally
    pages: int
    items: int

    def __str__(self) -> str:
        kinds = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in sorted(self.outcomes.kinds.items()))
        return f"{self.pages:,} pages, {self.items:,} items; outcomes: {kinds or 'none'}"


class BatchEngine(Protocol):
    """Scans batches of `least` to `most` accounts; only the last one may be smaller."""

    @property
    def least(self) -> int: ...  # noqa: D102

    @property
    def most(self) -> int: ...  # noqa: D102

    async def sync_batch(self, run: RunContext, batch: Batch) -> BatchReport:
        """Scan a batch's accounts, and land an outcome for each of its partitions."""
        ...


@dataclass(slots=True)
class AccountBatcher:
    """Divides listed accounts into batches of `least` to `most` accounts; only the last batch may be smaller.

    An account that is listed more than once is scanned once per run. At the end of the run, the ledger must have
    `expected_outcomes` outcomes of these accounts.
    """

    least: int = 1
    most: int = sys.maxsize
    listed: int = 0
    expected_outcomes: int = 0
    waiting: list[ListedAccount] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)
    _is_closed: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, accounts: Iterable[ListedAccount]) -> None:
        """Add listed accounts."""
        for account in accounts:
            if account.account_id not in self._known:
                self._known.add(account.account_id)
                self.waiting.append(account)
                self.listed += 1
                self.expected_outcomes += len(account.surfaces)
        self._changed.set()

    def close(self) -> None:
        """Signal that all accounts are listed: the remaining ones become a batch, however small."""
        self._is_closed = True
        self._changed.set()

    def take(self) -> Batch | None:
        """Return the next batch, or None if there are not enough accounts for one yet."""
        share = self.listed // _SHARE
        enough = 1 if self._is_closed else min(max(self.least, share), self.most)
        if len(self.waiting) < enough:
            return None
        first = self.listed - len(self.waiting) + 1
        most = min(max(_KNOWN_AT_ONCE, share), self.most)
        accounts, self.waiting = tuple(self.waiting[:most]), self.waiting[most:]
        return Batch(first, accounts)

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield batches while accounts are being listed, until all are in a batch."""
        while True:
            while (batch := self.take()) is not None:
                yield batch
            if self._is_closed:
                return
            await self._changed.wait()
            self._changed.clear()


def expected_items(last: Checkpoint | None) -> int | None:
    """Return how many items a partition's last closed scan found, or None if its last scan is not closed."""
    return last.items if last is not None and last.is_closed else None


@dataclass(slots=True)
class _Results:
    """The results of a batch's scans. Only counts are kept, because a large batch has tens of thousands of outcomes."""

    kinds: Counter[OutcomeKind] = field(default_factory=Counter)
    pages: int = 0
    items: int = 0

    def add(self, outcome: Outcome) -> None:
        self.kinds[outcome.kind] += 1
        self.pages += outcome.pages
        self.items += outcome.items


async def _scan_account(
    run: ScanContext, account: ListedAccount, last: Mapping[Partition, Checkpoint], depths: Depths, results: _Results
) -> None:
    # One after the other: both surfaces are one tenant scope, which must not have concurrent requests, and whose
    # cooldown applies to both (API 4.2).
    budget = run.budget(account_scope(account.account_id))
    depth = depths.take(account.account_id)
    for surface in account.surfaces:
        partition = media(account.account_id, surface)
        expected = expected_items(last.get(partition))
        landed = run.landed.get(partition, Landed())
        scan = PartitionScan(
            run,
            partition,
            budget,
            run.stop_media,
            last.get(partition),
            slot=True,
            listed_as=account.listed_as,
            username=account.ig_username,
            expected=expected,
            depth=depth,
            pages=landed.pages,
            items=landed.items,
        )
        results.add(await scan.to_outcome())
        run.counters.end(expected, scan.items)
    run.counters.accounts_done += 1


def _not_scanned(run: ScanContext, account: ListedAccount, now: datetime) -> Iterator[Outcome]:
    kind, code, detail = (
        (
            OutcomeKind.SKIPPED,
            "token_expired",
            "Its access token must be renewed; the next sync after that scans it again.",
        )
        if account.unknown_status is None
        else (OutcomeKind.FAILED, UNKNOWN_STATUS, f"The catalogue lists it with the status {account.unknown_status}.")
    )
    for surface in account.surfaces:
        partition = media(account.account_id, surface)
        yield Outcome(partition, run.run_id, kind, now, now, error_code=code, detail=detail)


async def _skip(run: ScanContext, accounts: Sequence[ListedAccount]) -> list[Outcome]:
    now = run.resources.clock.now()
    outcomes = [outcome for account in accounts for outcome in _not_scanned(run, account, now)]
    if outcomes:
        await run.resources.warehouse.land(PageCommit(outcomes=tuple(outcomes)))
        run.counters.accounts_done += len(accounts)
    return outcomes


async def scan_batch(run: ScanContext, batch: Batch) -> BatchReport:
    """Scan a batch's accounts, as many at once as there are slots; land an outcome for each partition."""
    resources = run.resources

    def is_due(account: ListedAccount) -> bool:
        return account.unknown_status is None and (resources.scan_expired or not account.expired)

    due = [account for account in batch.accounts if is_due(account)]
    skipped = [account for account in batch.accounts if not is_due(account)]
    last = await resources.warehouse.checkpoints("media", [a.account_id for a in due], run.run_kind)
    of_posts = [account.account_id for account in due if "posts" in account.surfaces]
    depths = Depths(resources.warehouse, resources.clock, run.mode, of_posts)
    await depths.begin()
    for account in due:
        for surface in account.surfaces:
            run.counters.expect(expected_items(last.get(media(account.account_id, surface))))
    results = _Results()
    for outcome in await _skip(run, skipped):
        results.add(outcome)
    # The lock is released before the group waits for its tasks. Batches start their scans in turn, so that accounts
    # that are listed together are also stored together, and batches end one by one.
    async with fail_fast_group() as group, resources.slots.starting:
        for account in due:
            await depths.load_known_posts(account.account_id)
            # The slot is taken before the task is created, so that waiting accounts cost no memory.
            await resources.slots.take()
            task = group.create_task(_scan_account(run, account, last, depths, results))
            # Not in a `finally` in the task: it would not run if the task is cancelled before it starts.
            task.add_done_callback(lambda _: resources.slots.give())
    return BatchReport(batch, Tally(dict(results.kinds)), results.pages, results.items)


def batcher_for(engine: BatchEngine | None, *, in_turn: bool) -> AccountBatcher:
    """Return a batcher for the engine's batch sizes (None: any size); batches scanned `in_turn` are large."""
    if in_turn:
        return AccountBatcher(_KNOWN_AT_ONCE, _KNOWN_AT_ONCE)
    return AccountBatcher() if engine is None else AccountBatcher(engine.least, engine.most)
