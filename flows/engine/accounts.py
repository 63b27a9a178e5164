"""The steps of a run that scan: they list the accounts, and scan their feeds, a batch of accounts at a time."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from connectors.source.errors import UNKNOWN_STATUS
from connectors.source.messages import CATALOGUE_SCOPE, account_scope
from connectors.state.inbox import read_checkpoints
from connectors.warehouse.queries.progress import (
    find_known_items,
    find_listed_accounts,
    read_closed_scans,
    read_statuses,
)
from connectors.warehouse.storage.errors import WarehouseError
from flows.engine.choosing import Batch
from flows.engine.pages import begin_scan, is_too_old, scan_account, scan_partition
from flows.engine.requests import RequestsEnded
from flows.engine.run import Run
from flows.engine.scan import Scan
from flows.engine.warehouse import Warehouse
from models.api import Page, RejectedRecord
from models.checkpoint import FullReason, why_full
from models.feeds import CATALOGUE, Partition, media
from models.runs import Outcome, OutcomeKind
from models.selection import ChosenAccount

# Accounts whose progress and known items are read at once. Those of later accounts would only take memory.
_AT_ONCE = 50


async def list_accounts(run: Run) -> Outcome | None:
    """Page through the account catalogue, with a cursor checkpoint for each page; note accounts whose token expired.

    The accounts of a page go into batches at once. Return the outcome, or None if the run may make no more requests.
    """
    warehouse, surfaces = run.resources.warehouse, run.request.surfaces
    last = (await warehouse.read_state(read_checkpoints, [""])).get(CATALOGUE)
    if run.request.options.accept_removals:
        # The user confirms the present catalogue, not what an interrupted run listed of it.
        last = None
    scan = await begin_scan(run, CATALOGUE, last, run.budget(CATALOGUE_SCOPE))
    if scan.checkpoint.pages and not is_too_old(run, scan):
        # Pages that this scan landed earlier are not requested again, but this run scans their accounts as well.
        found = await warehouse.read(find_listed_accounts, scan.checkpoint)
        run.batcher.add(ChosenAccount(listed_as, status, surfaces) for listed_as, status in found)
    rejected, outcome = list[RejectedRecord](), None

    def add(page: Page) -> None:
        run.batcher.add(ChosenAccount(one.id, one.status, surfaces, one.ig_username) for one in page.accounts)
        rejected.extend(page.rejected)

    scan.on_page = add
    with suppress(RequestsEnded):
        outcome = await scan_partition(run, scan)
    run.batcher.add(await _known(warehouse, rejected, surfaces))
    run.batcher.close()
    return outcome


async def _known(
    warehouse: Warehouse, rejected: Sequence[RejectedRecord], surfaces: tuple[str, ...]
) -> list[ChosenAccount]:
    """Return accounts that get outcomes although their record was rejected, because they are known."""
    listed_as = {record.account_id.lower(): record.account_id for record in rejected if record.account_id is not None}
    statuses = await warehouse.read(read_statuses, listed_as) if listed_as else {}
    return [ChosenAccount(listed_as[key], status, surfaces) for key, status in statuses.items()]


async def scan_batch(run: Run, batch: Batch) -> Counter[str]:
    """Scan the feeds of a batch's accounts; land an outcome for each partition. Return their number by kind, and pages.

    A rate limit of an account lets only that account wait, as long as Retry-After says. Accounts with an expired token
    are skipped, unless a setting lets them be scanned.
    """
    done, due = Counter[str](), list[ChosenAccount]()
    skipped = defaultdict[tuple[OutcomeKind, str, str], list[Partition]](list)
    for account in batch.accounts:
        if (why := why_skipped(account, scan_expired=run.request.settings.scan_expired)) is None:
            due.append(account)
        else:
            skipped[why] += [media(account.account_id, surface) for surface in account.surfaces]
            run.progress.accounts_done += 1
    for (kind, code, detail), partitions in skipped.items():
        await run.settle(partitions, kind=kind, error_code=code, detail=detail)
        done[kind] += len(partitions)
    async with fail_fast_group() as group:
        async for scans in _begin_scans(run, due):
            # Acquired before the task is created, so that waiting accounts cost no memory.
            await run.requests.open_accounts.acquire()
            scanning = group.create_task(_scan(run, scans, done))
            scanning.add_done_callback(lambda _: run.requests.open_accounts.release())
    return done


async def _scan(run: Run, scans: Sequence[Scan], done: Counter[str]) -> None:
    with suppress(RequestsEnded):
        done.update(await scan_account(run, scans))
        run.progress.accounts_done += 1


def why_skipped(account: ChosenAccount, *, scan_expired: bool) -> tuple[OutcomeKind, str, str] | None:
    """Return outcome, error code and detail of an account that is not scanned, or None."""
    if not account.is_expired and account.status != "active":
        # Without the status itself: it is data, which may be anything, such as the API key.
        detail = "The catalogue lists it with a status that gramhouse does not know; `gramhouse accounts` shows it."
        return OutcomeKind.FAILED, UNKNOWN_STATUS, detail
    if account.is_expired and not scan_expired:
        detail = "Its access token must be renewed; the next sync after that scans it again."
        return OutcomeKind.SKIPPED, "token_expired", detail
    return None


async def _begin_scans(run: Run, due: Sequence[ChosenAccount]) -> AsyncIterator[Sequence[Scan]]:
    """Yield the scans of each account, which depend on what is known of each feed."""
    warehouse = run.resources.warehouse
    for first in range(0, len(due), _AT_ONCE):
        if run.requests.are_over:
            return
        some = due[first : first + _AT_ONCE]
        account_ids = [account.account_id for account in some]
        checkpoints = await warehouse.read_state(read_checkpoints, account_ids, run.request.options.kind)
        closed = await warehouse.read(read_closed_scans, account_ids)
        feeds = {one: [media(one.account_id, surface) for surface in one.surfaces] for one in some}
        every = run.request.full_refresh_every
        full = {each: why_full(closed.get(each), every, at=run.began_at) for own in feeds.values() for each in own}
        recent = {each: closed[each] for each, why in full.items() if why is None}
        older_than = run.clock.now() - run.request.lookback
        known = await warehouse.read(find_known_items, recent, older_than=older_than) if recent else {}
        for account, own in feeds.items():
            budget = run.budget(account_scope(account.account_id))
            yield [
                await begin_scan(
                    run,
                    each,
                    checkpoints.get(each),
                    budget,
                    account,
                    known=known.get(each, frozenset()),
                    known_seq=recent[each].seq if each in recent else None,
                    is_due=full[each] is FullReason.DUE,
                )
                for each in own
            ]


@asynccontextmanager
async def fail_fast_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks in a group: the first one that fails cancels the others, and its exception is raised, not a group.

    If several fail, an error of the warehouse is raised, as it must be fixed first.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as errors:
        error: Exception = errors.subgroup(WarehouseError) or errors
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        # The cause is kept; the group adds no information.
        raise error from error.__cause__
