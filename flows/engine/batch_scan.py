"""Scans the accounts of a batch, as many at once as there are slots."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from connectors.source.endpoints import account_scope
from connectors.source.errors import UNKNOWN_STATUS
from flows.engine.batches import Batch, BatchReport, ListedAccount
from flows.engine.concurrency import fail_fast_group
from flows.engine.partition_scan import PartitionScan
from flows.engine.run_context import Landed, ScanContext
from flows.engine.scan_depth import Depths
from models.checkpoint import Checkpoint
from models.page_commit import PageCommit
from models.partition import Partition, media
from models.runs import Outcome, OutcomeKind, Tally


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
