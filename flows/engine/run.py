"""Opens a run: what it uses, its row in the ledger, and the runs that it resumes."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from collections.abc import Mapping as Map
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from connectors.source.rate_limit import RateLimitBudget
from connectors.source.request_rate import RequestRate
from connectors.source.retry import Send
from connectors.state.identity import bind_service, read_service
from connectors.state.progress import read_cooldowns
from connectors.state.runs import begin_run, end_run, read_runs
from connectors.warehouse.merge.run_counts import RunCounts, read_counts
from connectors.warehouse.queries.progress import find_due_scans, find_seen_ids, find_spellings
from connectors.warehouse.queries.selection import choose_accounts
from connectors.warehouse.storage.errors import OtherService, WarehouseUnusable
from flows.clock import SteadyClock
from flows.engine.batches import AccountBatcher, ListedAccount
from flows.engine.concurrency import Pacer, Slots
from flows.engine.paging import ScanAccount, scan_account
from flows.engine.resources import steady_clock
from flows.engine.run_request import RunRequest
from flows.engine.scan import Beginning, RequestsSpent, ScanContext
from flows.engine.warehouse import Warehouse
from flows.reporting.progress import Progress, notices
from flows.reporting.recording import STOPPED, short
from flows.reporting.words import count
from models.checkpoint import Checkpoint, ScanState
from models.clock import Clock
from models.identity import service_refusal
from models.incremental import Incremental, least_age
from models.page_items import post_reader
from models.runs import RunState
from models.selection import NothingChosen, Selection

if TYPE_CHECKING:
    from connectors.buckets.snapshot_bucket import SnapshotBucket


@dataclass(frozen=True, slots=True)
class RunResources:
    """The resources of a run, including time, randomness and ids.

    `scan_account` scans accounts in this process or on workers. `bucket` is where the snapshot is published in addition
    to its file on this machine. `rate` is that of the first request.
    """

    send: Send
    warehouse: Warehouse
    clock: Clock
    random: Callable[[], float]
    new_id: Callable[[], str]
    slots: Slots
    scan_account: ScanAccount = scan_account
    bucket: "SnapshotBucket | None" = None
    rate: RequestRate = field(default_factory=RequestRate)


class Run:
    """A run in progress: what was asked for, what its scans share, and the accounts in its batches.

    `cooldowns` has the end of each rate-limit scope's cooldown, from earlier runs. Not a dataclass: Prefect would copy
    the fields of one for each task.
    """

    def __init__(
        self,
        resources: RunResources,
        clock: SteadyClock,
        scans: ScanContext,
        cooldowns: Map[str, datetime],
    ) -> None:
        self.request = scans.request
        self.resources = resources
        self.clock = clock
        self.scans = scans
        self.run_id = scans.beginning.run_id
        self.progress = scans.progress
        # Batches are scanned one after the other, those accounts first that have waited longest.
        self.batcher = AccountBatcher(in_turn=self.request.max_requests is not None)
        self._began = clock.monotonic()
        self._cooldowns = cooldowns

    @property
    def seconds(self) -> float:
        """Return the seconds since the run began."""
        return self.clock.monotonic() - self._began

    def add(self, accounts: Iterable[ListedAccount]) -> None:
        """Add accounts that the run scans."""
        self.batcher.add(accounts)
        self.progress.accounts = self.batcher.listed

    def all_listed(self) -> None:
        """Signal that all accounts that the run scans were added."""
        self.progress.catalogue_complete = True
        self.batcher.close()

    def budget(self, scope: str) -> RateLimitBudget:
        """Return this run's wait budget for a rate-limit scope, including a cooldown of an earlier run."""
        resume_after = self._cooldowns.get(scope)
        if resume_after is not None:
            self.progress.cooldowns[scope] = resume_after
        now, monotonic = self.clock.now(), self.clock.monotonic()
        return RateLimitBudget.seeded(scope, self.request.max_wait, resume_after, now=now, monotonic=monotonic)

    async def seen(self, last: Checkpoint | None) -> frozenset[str]:
        """Return the ids that a scan has received, if it is unfinished."""
        if last is None or last.state is not ScanState.SCANNING or not last.pages:
            return frozenset()
        return frozenset(await self.resources.warehouse.read(find_seen_ids, last))

    async def end(self, state: RunState, **columns: object) -> None:
        """Write the end of the run, and other columns of its row, to the state."""
        done = {name: getattr(self.progress, name) for name in ("accounts", "requests", "pages", "items")}
        warehouse, now = self.resources.warehouse, self.clock.now()
        await warehouse.write_state(end_run, self.run_id, state, now=now, **done, **columns)


@asynccontextmanager
async def open_run(request: RunRequest, resources: RunResources, progress: Progress) -> AsyncIterator[Run]:
    """Begin a run and record it; if the block raises before the run is closed, it is marked as interrupted.

    Raises WarehouseUnusable, also if the clock is behind, OtherService, SelectionError and NothingChosen.
    """
    warehouse, clock = resources.warehouse, await steady_clock(resources.warehouse, resources.clock)
    if request.base_url is not None:
        await _check_service(warehouse, request.base_url, rebind=request.rebind)
    selected = None if request.selection is None else await _selected(request.selection, request.page_size, warehouse)
    run_id, now = resources.new_id(), clock.now()
    if request.schedule is not None:
        progress.next_run = now + request.schedule.interval(now)
    resumed = await _begin(request, warehouse, run_id, now)
    mapping, incremental = warehouse.mapping, await _incremental(request, warehouse, now)
    scans = ScanContext(
        request,
        Beginning(run_id, now, resumed, mapping, incremental),
        resources.send,
        warehouse.land,
        post_reader(mapping),
        clock,
        resources.random,
        resources.new_id,
        resources.slots,
        progress,
        Pacer(resources.rate),
        partial(_check_requests, request, progress),
    )
    # Only now: until then a failure is recorded as one before the run.
    progress.run_id = run_id
    run = Run(resources, clock, scans, await warehouse.read_state(read_cooldowns, now=now))
    try:
        await _report_resumed(resumed, warehouse)
        if selected is not None:
            run.add(selected)
            run.all_listed()
        yield run
    except (asyncio.CancelledError, Exception) as error:
        # Interrupted, not failed, so that the next run resumes it. If the disk itself failed, this write fails as well,
        # and the next run finds this one still marked as running.
        detail = STOPPED if isinstance(error, asyncio.CancelledError) else short(error)
        with suppress(WarehouseUnusable):
            await run.end(RunState.INTERRUPTED, detail=detail)
        raise


async def _check_service(warehouse: Warehouse, base_url: str, *, rebind: bool) -> None:
    """Raise OtherService, which names both addresses, if the data came from another service, or accept this one."""
    if rebind:
        await warehouse.write_state(bind_service, base_url)
    elif (refusal := service_refusal(await warehouse.read_state(read_service), base_url)) is not None:
        raise OtherService(refusal)


def _check_requests(request: RunRequest, progress: Progress, _: float) -> None:
    """Raise RequestsSpent if the run has made as many requests as it may."""
    if request.max_requests is not None and progress.requests >= request.max_requests:
        most = count(request.max_requests, "request")
        raise RequestsSpent(f"The run had made the {most} allowed by --max-requests.")


async def _selected(selection: Selection, page_size: int, warehouse: Warehouse) -> list[ListedAccount]:
    """Return the accounts that a backfill scans. Raises SelectionError and NothingChosen."""
    found = await warehouse.read(choose_accounts, selection, page_size)
    if not found:
        only_failed = selection == Selection(failed=True, surfaces=selection.surfaces)
        raise NothingChosen(
            f"Nothing to backfill: {'no unfinished scans' if only_failed else f'no accounts match {selection}'}."
        )
    spelled = await warehouse.read(find_spellings)
    return [
        ListedAccount(spelled.get(one.account_id, one.account_id), one.expired, one.surfaces, one.ig_username)
        for one in found
    ]


async def _begin(request: RunRequest, warehouse: Warehouse, run_id: str, now: datetime) -> tuple[str, ...]:
    """Write the run to the state; return the interrupted runs that it resumes."""
    return await warehouse.write_state(
        begin_run,
        run_id,
        request.kind,
        pid=os.getpid(),
        now=now,
        within=request.within,
        version=request.version,
        selection=request.selected,
        reason=request.reason,
        base_url=request.base_url,
        accept_removals=request.accept_removals,
    )


async def of_runs(warehouse: Warehouse, run_ids: Sequence[str]) -> tuple[RunCounts, ...]:
    """Return what these runs landed and changed, in the order in which they began."""
    counts = await warehouse.read(read_counts, run_ids)
    rows = await warehouse.read_state(read_runs)
    return tuple(
        RunCounts(row["run_id"], row["kind"], RunState(row["state"]), row["started_at"], *counts.get(row["run_id"], ()))
        for row in reversed(rows)
        if row["run_id"] in run_ids
    )


async def _report_resumed(resumed: Sequence[str], warehouse: Warehouse) -> None:
    if resumed:
        [last] = await of_runs(warehouse, resumed[:1])
        text = f"Run {last.run_id} ended but was not published; its completed scans will not be repeated."
        if last.state is RunState.INTERRUPTED:
            text = f"Resuming interrupted run {last.run_id}; saved pages will not be fetched again."
        notices.warning(text)


async def _incremental(request: RunRequest, warehouse: Warehouse, now: datetime) -> Incremental | None:
    """Return how the run decides between full and recent scans of posts; None: all are full."""
    if request.kind == "backfill" or request.mode == "full_refresh":
        return None
    due = await warehouse.read(find_due_scans, now=now, every=request.full_refresh_every)
    return Incremental(now, request.full_refresh_every, least_age(due, request.full_refresh_budget))
