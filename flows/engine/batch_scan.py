"""Scans the accounts of a batch, as many at once as there are slots."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence

from connectors.source.endpoints import account_scope
from connectors.source.errors import UNKNOWN_STATUS
from connectors.warehouse.queries.progress import find_known_items, read_closed_scans
from flows.engine.batches import Batch, ListedAccount
from flows.engine.concurrency import fail_fast_group
from flows.engine.paging import AccountScan
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
    done, slots, now = Counter[str](), run.resources.slots, run.clock.now()
    due, outcomes = list[ListedAccount](), list[Outcome]()

    def ended(outcome: Outcome) -> None:
        # Only counts, because a large batch has tens of thousands of outcomes.
        done.update({outcome.kind: 1, "pages": outcome.pages})

    for account in batch.accounts:
        if (why := _why_not(account, scan_expired=run.request.scan_expired)) is None:
            due.append(account)
            continue
        kind, code, detail = why
        for surface in account.surfaces:
            partition = media(account.account_id, surface)
            outcomes.append(Outcome(partition, run.run_id, kind, now, now, error_code=code, detail=detail))
            ended(outcomes[-1])
    if outcomes:
        await run.scans.land(PageCommit(outcomes=tuple(outcomes)))
        run.progress.accounts_done += len(batch.accounts) - len(due)
    # The lock is released before the group waits for its tasks. Batches start their scans in turn, so that accounts
    # that are listed together are also stored together, and batches end one by one.
    async with fail_fast_group() as group, slots.starting:
        async for scan in _read(run, due):
            # The slot is taken before the task is created, so that waiting accounts cost no memory.
            await slots.acquire()
            scanning = group.create_task(run.resources.scan_account(run.scans, scan, ended))
            scanning.add_done_callback(lambda _: slots.release())
    return done


def _why_not(account: ListedAccount, *, scan_expired: bool) -> tuple[OutcomeKind, str, str] | None:
    """Return outcome, error code and detail of an account that is not scanned, or None."""
    if account.is_forgotten:
        return OutcomeKind.SKIPPED, FORGOTTEN, FORGOTTEN
    if account.unknown_status is not None:
        # Without the status itself: it is data, which may be anything, such as the API key.
        detail = "The catalogue lists it with a status that gramhouse does not know; `gramhouse accounts` shows it."
        return OutcomeKind.FAILED, UNKNOWN_STATUS, detail
    if account.expired and not scan_expired:
        detail = "Its access token must be renewed; the next sync after that scans it again."
        return OutcomeKind.SKIPPED, "token_expired", detail
    return None


async def _read(run: Run, accounts: Sequence[ListedAccount]) -> AsyncIterator[AccountScan]:
    """Yield accounts with what their scans must know from the warehouse."""
    warehouse, account_ids = run.resources.warehouse, [one.account_id for one in accounts]
    checkpoints = await warehouse.checkpoints(account_ids, run.request.kind)
    closed = await warehouse.read(read_closed_scans, account_ids)
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
        known = await warehouse.read(find_known_items, recent, older_than=older_than) if recent else {}
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
                    token_expired=account.expired,
                )
                for each in partitions[account.account_id]
            ]
            yield AccountScan(run.budget(account_scope(account.account_id)), starts)
