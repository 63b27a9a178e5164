"""Scans the accounts of a batch, as many at once as there are slots."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from connectors.source.endpoints import account_scope
from connectors.warehouse.runs import progress
from connectors.warehouse.runs.closed_scans import closed_scans, known_items
from flows.engine.accounts import AccountScan, ListedAccount, not_scanned
from flows.engine.batches import Batch, BatchReport
from flows.engine.concurrency import fail_fast_group
from flows.engine.run import Run
from flows.engine.scan import Depth
from models.checkpoint import ScanState
from models.incremental import why_full
from models.page_commit import PageCommit
from models.partition import media
from models.runs import Outcome, OutcomeKind, Tally

# The number of accounts whose known items are read in one query. Those of later accounts would only take memory.
_KNOWN_AT_ONCE = 50


async def sync_batch(run: Run, batch: Batch) -> BatchReport:
    """Scan the feeds of a batch's accounts; land an outcome for each partition.

    A rate limit of an account lets only that account wait, as long as Retry-After says. Accounts with an expired token
    are skipped, unless a setting lets them be scanned. Forgotten accounts are always skipped.
    """
    resources = run.resources
    # Only counts are kept, because a large batch has tens of thousands of outcomes.
    kinds, pages, items = Counter[OutcomeKind](), 0, 0

    def ended(outcome: Outcome) -> None:
        nonlocal pages, items
        kinds[outcome.kind] += 1
        pages += outcome.pages
        items += outcome.items

    def is_due(account: ListedAccount) -> bool:
        is_known = account.unknown_status is None and not account.is_forgotten
        return is_known and (resources.scan_expired or not account.expired)

    await _skip(run, [account for account in batch.accounts if not is_due(account)], ended)
    # The lock is released before the group waits for its tasks. Batches start their scans in turn, so that accounts
    # that are listed together are also stored together, and batches end one by one.
    async with fail_fast_group() as group, resources.slots.starting:
        async for account in _read(run, [account for account in batch.accounts if is_due(account)]):
            # The slot is taken before the task is created, so that waiting accounts cost no memory.
            await resources.slots.take()
            task = group.create_task(resources.scan_account(run.scans, account, ended))
            # Not in a `finally` in the task: it would not run if the task is cancelled before it starts.
            task.add_done_callback(lambda _: resources.slots.give())
    return BatchReport(batch, Tally(dict(kinds)), pages, items)


async def _skip(run: Run, accounts: Collection[ListedAccount], ended: Callable[[Outcome], None]) -> None:
    outcomes = tuple(not_scanned(accounts, run.run_id, run.resources.clock.now()))
    if outcomes:
        await run.scans.land(PageCommit(outcomes=outcomes))
        run.progress.accounts_done += len(accounts)
    for outcome in outcomes:
        ended(outcome)


async def _read(run: Run, accounts: Sequence[ListedAccount]) -> AsyncIterator[AccountScan]:
    """Yield accounts with what their scans must know from the warehouse."""
    warehouse, options = run.resources.warehouse, run.scans.options
    checkpoints = await warehouse.checkpoints([one.account_id for one in accounts], options.run_kind)
    closed = await warehouse.read(closed_scans, [one.account_id for one in accounts])
    for start in range(0, len(accounts), _KNOWN_AT_ONCE):
        some = accounts[start : start + _KNOWN_AT_ONCE]
        partitions = {one.account_id: [media(one.account_id, surface) for surface in one.surfaces] for one in some}
        full = {each: why_full(closed.get(each), options.incremental) for own in partitions.values() for each in own}
        recent = {each: closed[each] for each, reason in full.items() if reason is None}
        older_than = run.resources.clock.now() - options.lookback
        known = await warehouse.read(known_items, recent, older_than=older_than) if recent else {}
        depths = {
            each: Depth(reason) if reason else Depth(None, recent[each].seq, known.get(each, frozenset()))
            for each, reason in full.items()
        }
        for account in some:
            last = partitions[account.account_id]
            own = {partition: checkpoints[partition] for partition in last if partition in checkpoints}
            unfinished = [one.scan_id for one in own.values() if one.state is ScanState.SCANNING and one.pages]
            seen = {scan_id: frozenset(await warehouse.read(progress.seen, scan_id)) for scan_id in unfinished}
            budget = run.budget(account_scope(account.account_id))
            own_depths = {each.surface: depths[each] for each in last}
            yield AccountScan(account, own, seen, own_depths, budget, list(account.surfaces))
