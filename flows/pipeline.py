"""A run's body: list the accounts, walk their media meanwhile, fold, judge, publish. Plain async."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypedDict
from uuid import uuid4

from connectors.source.endpoints import Response
from connectors.source.errors import ApiError
from connectors.warehouse import ledger, progress
from connectors.warehouse.errors import WarehouseUnusable
from connectors.warehouse.fold import FoldCounts
from connectors.warehouse.rebuild import is_read_by
from connectors.warehouse.report import Concern, concerns, expired_accounts
from flows.batches import Batch, BatchReport, Gathering, ListedAccount, RunBatch, run_directly, walk_batch
from flows.run import Counters, Means, RunContext
from flows.together import together
from flows.walking import PartitionWalk
from models.ledger import Outcome, RunState, Tally, judge
from models.partition import CATALOGUE
from models.walk import Fresh, plan_walk
from models.wire import AccountPage

EXPIRED = "token_expired"

# So many accounts that an interrupted run had listed are handed on at once, that they make batches, too.
_EARLIER = 500


class _Ended(TypedDict):
    state: RunState
    accounts: int
    outcomes: Tally
    pages: int
    items: int
    media: FoldCounts
    concerns: tuple[Concern, ...]
    stopped_by: ApiError | None


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run did, once it has ended; `seconds` on the monotonic clock.

    `mapping_pending` says that the media are read by another mapping than the settings'.
    """

    run_id: str
    state: RunState
    carried_on: tuple[str, ...]
    accounts: int
    outcomes: Tally
    pages: int
    items: int
    media: FoldCounts
    concerns: tuple[Concern, ...]
    expired: int
    stopped_by: ApiError | None
    restarted: int
    mapping_pending: bool
    started_at: datetime
    seconds: float
    snapshot: Path
    snapshot_bytes: int


@dataclass(frozen=True, slots=True)
class RunOrder:
    """What is asked of a run: `within` bounds how old an interrupted run may be to be carried on."""

    kind: str
    snapshot: Path
    within: timedelta
    version: str


def new_id() -> str:
    """Return an id for a run or a walk."""
    return uuid4().hex


async def run_once(
    order: RunOrder,
    means: Means,
    *,
    run_batch: RunBatch = run_directly,
    counters: Counters | None = None,
) -> RunReport:
    """Run one sync over everything the key can see, and publish what it left.

    What goes wrong with the API ends in an outcome, never in an exception. Raises WarehouseUnusable, and
    marks the run interrupted when it is cancelled.
    """
    warehouse, clock = means.warehouse, means.clock
    began = clock.monotonic()
    is_current = await warehouse.transact(is_read_by, means.mapping)
    # What an earlier process landed and did not fold comes first: this run reads what it listed.
    left_over = await warehouse.fold()
    run_id = means.new_id()
    started_at = clock.now()
    carried_on = await warehouse.transact(
        ledger.begin, run_id, order.kind, now=started_at, within=order.within, version=order.version
    )
    holds = await warehouse.transact(progress.holds, now=started_at)
    run = RunContext(run_id, carried_on, holds, means, order.within, counters or Counters())
    try:
        listed = await _walk_everything(run, run_batch)
        ended = await _settle(run, listed, left_over)
    except asyncio.CancelledError:
        await _close(run, RunState.INTERRUPTED, detail="Stopped by a person or by the machine.")
        raise
    except Exception as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        # Interrupted, not failed: no verdict of the API's, so the next run carries on what had landed. A file that
        # failed takes no last word either; the next run then finds this one without an end.
        with suppress(WarehouseUnusable):
            await _close(run, RunState.INTERRUPTED, detail=said[0])
        raise
    size = await warehouse.publish(order.snapshot, at=clock.now(), version=order.version)
    return RunReport(
        run_id=run_id,
        carried_on=carried_on,
        expired=await warehouse.transact(expired_accounts),
        restarted=run.counters.restarted,
        mapping_pending=not is_current,
        started_at=started_at,
        seconds=clock.monotonic() - began,
        snapshot=order.snapshot,
        snapshot_bytes=size,
        **ended,
    )


async def _settle(run: RunContext, listed: int, left_over: FoldCounts) -> _Ended:
    """Fold what landed, hold the ledger to account, and close the run."""
    warehouse = run.means.warehouse
    media = left_over + await warehouse.fold()
    outcomes, pages, items = await warehouse.transact(ledger.tally, run.run_id)
    owed = 1 + listed * len(run.means.surfaces)
    if outcomes.total != owed:
        message = f"the ledger holds {outcomes.total} outcomes where {owed} are owed"
        raise AssertionError(message)
    stopped_by = run.stop_media.error
    state = judge(outcomes, stopped=stopped_by is not None)
    matters = await warehouse.transact(concerns, run.run_id)
    foremost = matters[0] if matters else None
    await _close(
        run,
        state,
        accounts=listed,
        partitions=outcomes.total,
        pages=pages,
        items=items,
        **asdict(media),
        error_code=stopped_by.code if stopped_by else foremost and foremost.error_code,
        detail=stopped_by.message if stopped_by else foremost and foremost.detail,
    )
    return _Ended(
        state=state,
        accounts=listed,
        outcomes=outcomes,
        pages=pages,
        items=items,
        media=media,
        concerns=matters,
        stopped_by=stopped_by,
    )


async def _close(run: RunContext, state: RunState, **columns: object) -> None:
    end = partial(ledger.end, now=run.means.clock.now(), **columns)
    await run.means.warehouse.transact(end, run.run_id, state)


async def _walk_everything(run: RunContext, run_batch: RunBatch) -> int:
    """Walk the catalogue and, while it goes on, the accounts listed so far; return how many were listed."""
    gathering = Gathering()
    async with together() as group:

        async def work(batch: Batch) -> None:
            async def body() -> BatchReport:
                return await walk_batch(run, batch)

            await run_batch(batch, body)

        def send_off(accounts: list[ListedAccount], *, all_of_them: bool = False) -> None:
            gathering.add(accounts)
            run.counters.accounts = gathering.listed
            batch = gathering.take(all_of_them=all_of_them)
            if batch is not None:
                group.create_task(work(batch))

        await _walk_catalogue(run, send_off)
        run.counters.catalogue_complete = True
        send_off([], all_of_them=True)
    return gathering.listed


async def _walk_catalogue(run: RunContext, send_off: Callable[[list[ListedAccount]], None]) -> Outcome:
    means = run.means
    found = await means.warehouse.transact(progress.checkpoints, "accounts", [""])
    last = found.get(CATALOGUE)
    now = means.clock.now()
    plan = plan_walk(CATALOGUE, last, run_id=run.run_id, carried_on=run.carried_on, now=now, new_id=means.new_id)
    if not isinstance(plan, Fresh):
        # The pages this walk landed earlier are not asked for again, but their accounts are this run's, too.
        earlier = await means.warehouse.transact(progress.listed, plan.checkpoint.walk_id)
        for begin in range(0, len(earlier), _EARLIER):
            some = earlier[begin : begin + _EARLIER]
            send_off([ListedAccount(account_id, status == EXPIRED) for account_id, status in some])

    def on_page(response: Response) -> None:
        if isinstance(response.page, AccountPage):
            send_off([ListedAccount(account.id, account.status == EXPIRED) for account in response.page.accounts])

    walk = PartitionWalk(run, CATALOGUE, run.scope_wait("account_catalog"), run.stop, last, slot=False, on_page=on_page)
    return await walk.to_outcome()
