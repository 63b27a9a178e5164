"""Scans the accounts of a batch."""

from asyncio import TaskGroup
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress

from connectors.source.endpoints import account_scope
from connectors.source.errors import UNKNOWN_STATUS
from connectors.state.progress import read_checkpoints
from connectors.warehouse.queries.progress import find_known_items, read_closed_scans
from flows.engine.batches import FULL_BATCH, Batch, ListedAccount
from flows.engine.pages import scan_pages
from flows.engine.requests import RequestsSpent
from flows.engine.run import Run
from flows.engine.scan import AccountScan, Scan, Start, begin_scan
from flows.engine.scans import fail_fast_group
from models.forgotten import FORGOTTEN
from models.incremental import why_full
from models.page_commit import PageCommit
from models.partition import media
from models.runs import Outcome, OutcomeKind

# The number of accounts whose known items are read in one query. Those of later accounts would only take memory.
_KNOWN_AT_ONCE = 50


async def scan_batch(run: Run, batch: Batch) -> Counter[str]:
    """Scan the feeds of a batch's accounts; land an outcome for each partition. Return their number by kind, and pages.

    A rate limit of an account lets only that account wait, as long as Retry-After says. Accounts with an expired token
    are skipped, unless a setting lets them be scanned. Forgotten accounts are always skipped.
    """
    done, now, due, skipped = Counter[str](), run.clock.now(), list[tuple[int, ListedAccount]](), list[Outcome]()
    for number, account in enumerate(batch.accounts, batch.first):
        if (why := _why_not(account, scan_expired=run.request.settings.scan_expired)) is None:
            due.append((number, account))
            continue
        kind, code, detail = why
        skipped += [
            Outcome(media(account.account_id, surface), run.run_id, kind, now, now, error_code=code, detail=detail)
            for surface in account.surfaces
        ]
    if skipped:
        await run.land(PageCommit(outcomes=tuple(skipped)))
        done.update(outcome.kind for outcome in skipped)
        run.progress.accounts_done += len(batch.accounts) - len(due)
    async with fail_fast_group() as group:
        for account_scan in batch.again:
            await _start(run, account_scan, done, group)
        for first in range(0, len(due), FULL_BATCH):
            if run.requests.are_spent:
                break
            async for account_scan in _read_starts(run, due[first : first + FULL_BATCH]):
                await _start(run, account_scan, done, group)
    return done


async def _start(run: Run, account: AccountScan, done: Counter[str], group: TaskGroup) -> None:
    # Acquired before the task is created, so that waiting accounts cost no memory.
    await run.requests.open_accounts.acquire()
    scan = run.resources.scan_account or scan_account
    scanning = group.create_task(scan(run, account, done))
    scanning.add_done_callback(lambda _: run.requests.open_accounts.release())


async def scan_account(run: Run, account: AccountScan, done: Counter[str]) -> None:
    """Scan what is left of an account, and count its outcomes and pages in `done`.

    One surface after the other: both are one rate-limit scope, which must not have concurrent requests, and whose
    cooldown applies to both (API 4.2).
    """
    failed = list[Start | Scan]()
    with suppress(RequestsSpent):
        for each in account.left:
            scan = begin_scan(run.scanning, each) if isinstance(each, Start) else each
            scan.may_repeat = isinstance(each, Start) and run.may_repeat
            outcomes: tuple[Outcome, ...] = ()
            async with aclosing(scan_pages(run.scanning, scan, account.budget)) as commits:
                async for commit, _ in commits:
                    await run.land(commit)
                    outcomes = commit.outcomes
            failed += [] if outcomes else [scan]
            # Only counts, because a large batch has tens of thousands of outcomes.
            for outcome in outcomes:
                done.update({outcome.kind: 1, "pages": outcome.pages})
        if failed:
            run.to_repeat.append(AccountScan(account.budget, failed))
        else:
            run.progress.accounts_done += 1


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


async def _read_starts(run: Run, accounts: Sequence[tuple[int, ListedAccount]]) -> AsyncIterator[AccountScan]:
    """Yield accounts, with their numbers in the run, and what their scans must know from the warehouse."""
    warehouse, account_ids = run.resources.warehouse, [one.account_id for _, one in accounts]
    checkpoints = await warehouse.read_state(read_checkpoints, account_ids, run.request.kind)
    closed = await warehouse.read(read_closed_scans, account_ids)
    for first in range(0, len(accounts), _KNOWN_AT_ONCE):
        some = accounts[first : first + _KNOWN_AT_ONCE]
        partitions = {one.account_id: [media(one.account_id, surface) for surface in one.surfaces] for _, one in some}
        full = {each: why_full(closed.get(each), run.incremental) for own in partitions.values() for each in own}
        recent = {each: closed[each] for each, reason in full.items() if reason is None}
        older_than = run.clock.now() - run.request.lookback
        known = await warehouse.read(find_known_items, recent, older_than=older_than) if recent else {}
        for number, account in some:
            starts: list[Start | Scan] = [
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
                    number=number,
                )
                for each in partitions[account.account_id]
            ]
            yield AccountScan(run.budget(account_scope(account.account_id)), starts)
