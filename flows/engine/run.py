"""Opens a run: what it uses, its row in the ledger, and the runs that it resumes."""

import asyncio
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
from connectors.warehouse.maintenance.future_times import repair_future_times
from connectors.warehouse.merge.run_counts import of_runs
from connectors.warehouse.runs import ledger
from connectors.warehouse.runs.closed_scans import full_scans_due
from connectors.warehouse.runs.progress import cooldowns, listed_spellings, seen
from connectors.warehouse.runs.selection import chosen
from connectors.warehouse.runs.service import bind_service, check_service
from connectors.warehouse.schema.field_registry import read_mapping
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.warehouse import Warehouse
from flows.clock import SteadyClock
from flows.engine.batches import AccountBatcher, ListedAccount
from flows.engine.concurrency import Pacer, Slots
from flows.engine.paging import ScanAccount, scan_account
from flows.engine.resources import steady_clock
from flows.engine.run_request import RunRequest
from flows.engine.scan import Beginning, RequestsSpent, ScanContext
from flows.reporting.progress import Progress, notices
from flows.reporting.recording import STOPPED, Recording, recorded, short
from flows.reporting.words import count
from models.checkpoint import Checkpoint, ScanState
from models.clock import Clock
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
        recording: Recording,
    ) -> None:
        self.request = scans.request
        self.resources = resources
        self.clock = clock
        self.scans = scans
        self.recording = recording
        self.run_id = scans.beginning.run_id
        self.progress = scans.progress
        # Batches are scanned one after the other, those accounts first that have waited longest.
        self.batcher = AccountBatcher(in_turn=self.request.max_requests is not None)
        self.is_open = True
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
        return frozenset(await self.resources.warehouse.read(seen, last.scan_id))

    async def end(self, state: RunState, **columns: object) -> None:
        """Write the end of the run, and other columns of its row, to the ledger."""
        columns["requests"] = self.progress.requests
        await self.resources.warehouse.write(ledger.end, self.run_id, state, now=self.clock.now(), **columns)
        self.is_open = False


@asynccontextmanager
async def open_run(request: RunRequest, resources: RunResources, progress: Progress) -> AsyncIterator[Run]:
    """Begin a run and record it; if the block raises before the run is closed, it is marked as interrupted.

    Raises WarehouseUnusable, also if the clock is behind, OtherService, SelectionError and NothingChosen.
    """
    warehouse, clock = resources.warehouse, await steady_clock(resources.warehouse, resources.clock)
    if request.base_url is not None:
        await warehouse.write(bind_service if request.rebind else check_service, request.base_url)
    selected = None if request.selection is None else await _selected(request.selection, request.page_size, warehouse)
    run_id, now = resources.new_id(), clock.now()
    if request.schedule is not None:
        progress.next_run = now + request.schedule.interval(now)
    resumed = await _begin(request, warehouse, run_id, now)
    mapping, incremental = await warehouse.read(read_mapping), await _incremental(request, warehouse, now)
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
    recording_run = recorded(
        request.snapshot,
        request.kind,
        now=clock.now,
        on_error=RunState.INTERRUPTED,
        run_id=run_id,
        selection=request.selected,
        progress=progress,
    )
    # Only now: until then a failure is recorded as one before the run.
    progress.run_id = run_id
    with recording_run as recording:
        await _report_resumed(resumed, warehouse)
        run = Run(resources, clock, scans, await warehouse.write(cooldowns, now=now), recording)
        if selected is not None:
            run.add(selected)
            run.all_listed()
        try:
            yield run
        except (asyncio.CancelledError, Exception) as error:
            if run.is_open:
                # Interrupted, not failed, so that the next run resumes it. If the warehouse file itself failed, this
                # write fails as well, and the next run finds this one still marked as running.
                detail = STOPPED if isinstance(error, asyncio.CancelledError) else short(error)
                with suppress(WarehouseUnusable):
                    await run.end(RunState.INTERRUPTED, detail=detail)
            raise


def _check_requests(request: RunRequest, progress: Progress, _: float) -> None:
    """Raise RequestsSpent if the run has made as many requests as it may."""
    if request.max_requests is not None and progress.requests >= request.max_requests:
        most = count(request.max_requests, "request")
        raise RequestsSpent(f"The run had made the {most} allowed by --max-requests.")


async def _selected(selection: Selection, page_size: int, warehouse: Warehouse) -> list[ListedAccount]:
    """Return the accounts that a backfill scans. Raises SelectionError and NothingChosen."""
    found = await warehouse.read(chosen, selection, page_size)
    if not found:
        only_failed = selection == Selection(failed=True, surfaces=selection.surfaces)
        raise NothingChosen(
            f"Nothing to backfill: {'no unfinished scans' if only_failed else f'no accounts match {selection}'}."
        )
    spelled = await warehouse.read(listed_spellings)
    return [
        ListedAccount(spelled.get(one.account_id, one.account_id), one.expired, one.surfaces, one.ig_username)
        for one in found
    ]


async def _begin(request: RunRequest, warehouse: Warehouse, run_id: str, now: datetime) -> tuple[str, ...]:
    """Write the run to the ledger; return the interrupted runs that it resumes."""
    resumed = await warehouse.write(
        ledger.begin,
        run_id,
        request.kind,
        now=now,
        within=request.within,
        version=request.version,
        selection=request.selected,
        reason=request.reason,
        base_url=request.base_url,
        accept_removals=request.accept_removals,
    )
    # Only after deciding which runs are resumed, because runs that began in the future must not be.
    await warehouse.write(repair_future_times, run_id, now=now)
    return resumed


async def _report_resumed(resumed: Sequence[str], warehouse: Warehouse) -> None:
    if resumed:
        (last,) = await warehouse.read(of_runs, resumed[:1])
        text = f"Run {last.run_id} ended but was not published; its completed scans will not be repeated."
        if last.state is RunState.INTERRUPTED:
            text = f"Resuming interrupted run {last.run_id}; saved pages will not be fetched again."
        notices.warning(text)


async def _incremental(request: RunRequest, warehouse: Warehouse, now: datetime) -> Incremental | None:
    """Return how the run decides between full and recent scans of posts; None: all are full."""
    if request.kind == "backfill" or request.mode == "full_refresh":
        return None
    due = await warehouse.read(full_scans_due, now=now, every=request.full_refresh_every)
    return Incremental(now, request.full_refresh_every, least_age(due, request.full_refresh_budget))
