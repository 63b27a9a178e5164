"""Scans the accounts of a batch, as many at once as there are slots."""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from datetime import datetime

from connectors.source.endpoints import account_scope
from connectors.source.errors import UNKNOWN_STATUS
from connectors.warehouse.runs.closed_scans import closed_scans, known_items
from flows.engine.accounts import AccountScan, Ended
from flows.engine.batches import Batch, ListedAccount
from flows.engine.concurrency import fail_fast_group
from flows.engine.run import Run
from flows.engine.scan import Start
from models.forgotten import FORGOTTEN
from models.incremental import why_full
from models.page_commit import PageCommit
from models.partition import media
from models.runs import Outcome, OutcomeKind

# The number of accounts whose known items are read in one query. Those of later accounts would only take memory.
_KNOWN_AT_ONCE = 50


async def sync_batch(run: Run, batch: Batch) -> Counter[str]:
    """Scan the feeds of a batch's accounts; land an outcome for each partition. Return their number by kind, and pages.

    A rate limit of an account lets only that account wait, as long as Retry-After says. Accounts with an expired token
    are skipped, unless a setting lets them be scanned. Forgotten accounts are always skipped.
    """
    done, slots = Counter[str](), run.resources.slots

    def ended(outcome: Outcome) -> None:
        # Only counts, because a large batch has tens of thousands of outcomes.
        done.update({outcome.kind: 1, "pages": outcome.pages})

    def is_due(account: ListedAccount) -> bool:
        is_known = account.unknown_status is None and not account.is_forgotten
        return is_known and (run.request.scan_expired or not account.expired)

    await _skip(run, [account for account in batch.accounts if not is_due(account)], ended)
    # The lock is released before the group waits for its tasks. Batches start their scans in turn, so that accounts
    # that are listed together are also stored together, and batches end one by one.
    async with fail_fast_group() as group, slots.starting:
        async for account in _read(run, [account for account in batch.accounts if is_due(account)]):
            # The slot is taken before the task is created, so that waiting accounts cost no memory.
            await slots.acquire()
            group.create_task(_scan_in_slot(run, account, ended))
    return done


async def _scan_in_slot(run: Run, account: AccountScan, ended: Ended) -> None:
    try:
        await run.resources.scan_account(run.scans, account, ended)
    finally:
        run.resources.slots.release()


async def _skip(run: Run, accounts: Collection[ListedAccount], ended: Ended) -> None:
    outcomes = tuple(_not_scanned(accounts, run.run_id, run.clock.now()))
    if outcomes:
        await run.scans.land(PageCommit(outcomes=outcomes))
        run.progress.accounts_done += len(accounts)
    for outcome in outcomes:
        ended(outcome)


def _not_scanned(accounts: Collection[ListedAccount], run_id: str, now: datetime) -> Iterator[Outcome]:
    """Yield the outcomes of accounts that are not scanned: forgotten, with an unknown status or expired token."""
    for account in accounts:
        kind, code = OutcomeKind.SKIPPED, "token_expired"
        detail = "Its access token must be renewed; the next sync after that scans it again."
        if account.is_forgotten:
            code = detail = FORGOTTEN
        elif account.unknown_status is not None:
            kind, code = OutcomeKind.FAILED, UNKNOWN_STATUS
            detail = f"The catalogue lists it with the status {account.unknown_status}."
        for surface in account.surfaces:
            partition = media(account.account_id, surface)
            yield Outcome(partition, run_id, kind, now, now, error_code=code, detail=detail)


async def _read(run: Run, accounts: Sequence[ListedAccount]) -> AsyncIterator[AccountScan]:
    """Yield accounts with what their scans must know from the warehouse."""
    warehouse, account_ids = run.resources.warehouse, [one.account_id for one in accounts]
    checkpoints = await warehouse.checkpoints(account_ids, run.request.kind)
    closed = await warehouse.read(closed_scans, account_ids)
    for first in range(0, len(accounts), _KNOWN_AT_ONCE):
        some = accounts[first : first + _KNOWN_AT_ONCE]
        partitions = {one.account_id: [media(one.account_id, surface) for surface in one.surfaces] for one in some}
        full = {
            each: why_full(closed.get(each), run.scans.beginning.incremental)
            for own in partitions.values()
            for each in own
        }
        recent = {each: closed[each] for each, reason in full.items() if reason is None}
        older_than = run.clock.now() - run.request.lookback
        known = await warehouse.read(known_items, recent, older_than=older_than) if recent else {}
        for account in some:
            starts = [
                Start(
                    each,
                    last := checkpoints.get(each),
                    full[each],
                    known_seq=recent[each].seq if each in recent else None,
                    known=known.get(each, frozenset()),
                    seen=await run.seen(last),
                    listed_as=account.listed_as,
                    username=account.username,
                )
                for each in partitions[account.account_id]
            ]
            yield AccountScan(run.budget(account_scope(account.account_id)), starts)
