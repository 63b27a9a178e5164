"""Batches on workers: submits them, reads their logs in the store, and submits them again after a lost attempt."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from connectors.source.endpoints import account_scope
from connectors.store.object_store import ObjectStore, StoreError
from connectors.store.opening import open_store
from connectors.warehouse.runs.stored_hashes import joined_hashes
from connectors.warehouse.schema.field_registry import read_mapping, read_registry
from connectors.warehouse.warehouse import Warehouse
from flows.cluster.batch_log import Fenced
from flows.cluster.batch_spec import ApiAccess, BatchSpec, KnownBefore, batch_prefix, run_prefix, write_spec
from flows.cluster.dask_workers import NO_WORKERS, DaskWorkers
from flows.cluster.loader import FollowedBatch, Loader
from flows.cluster.shared_run import begin_shared_run
from flows.cluster.stop_mark import StopMark, write_stop
from flows.cluster.worker import stop_scans
from flows.config.errors import ClusterLost, SettingsError
from flows.config.settings import Settings
from flows.engine.batch_scan import expected_items
from flows.engine.batches import Batch, BatchReport
from flows.engine.run_context import RunContext
from flows.reporting.words import Say
from models.checkpoint import ScanState
from models.clock import Clock
from models.incremental import why_full
from models.partition import media

_log = logging.getLogger(__name__)

# Lost attempts at a batch after which the run gives up. Fenced attempts do not count. In addition, Dask repeats tasks
# of workers that died.
_ROUNDS = 3

# Timeout, in seconds, of the question whether there are workers.
_ANSWER = 10.0

# The most hashes of stored items in the specification of a batch, 16 bytes each. Items of further accounts are sent to
# the loader even if they are unchanged.
_HASHES = 2_000_000

# Seconds between two checks for workers.
_WATCH_EVERY = 1.0

# Seconds without an entry after which an attempt that fenced out another one is considered dead.
_QUIET = 60.0


class WorkerBatches:
    """Scans the batches of one run on workers. See `flows.engine.run_context.BatchEngine`."""

    least = 25
    most = 500

    def __init__(
        self,
        workers: DaskWorkers,
        store: ObjectStore,
        sequence: int,
        api: ApiAccess,
        warehouse: Warehouse,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._workers = workers
        self._store = store
        self._sequence = sequence
        self._api = api
        self._warehouse = warehouse
        self._clock = clock
        self._loader = Loader(store, warehouse, sequence, clock=clock)
        self._specs = asyncio.Lock()
        self._batches = 0
        self._key = new_id()
        self._are_workers_there = asyncio.Event()
        self._background: list[asyncio.Task[None]] = []

    async def sync_batch(self, run: RunContext, batch: Batch) -> BatchReport:
        """Scan a batch on a worker; return its result when the whole batch is merged.

        Raises ClusterLost, StoreError, SettingsError (of a worker) and WarehouseUnusable.
        """
        if not self._background:
            self._begin(run)
        followed, prefix = await self._enter(run, batch)
        lost, attempts = 0, 0
        while lost < _ROUNDS:
            attempts += 1
            error = await self._attempt(followed, prefix, attempts)
            if isinstance(error, Fenced):
                await self._until_quiet(followed)
            if followed.merged.is_set():
                return followed.report()
            if isinstance(error, SettingsError | StoreError):
                raise error
            if not isinstance(error, Fenced):
                lost += 1
                _log.warning("%s: attempt %d of %d ended: %s", batch, lost, _ROUNDS, error)
                self._are_workers_there.clear()
                await self._first(self._are_workers_there.wait())
        message = (
            f"{batch}: {_ROUNDS} attempts ended without a result. Saved pages are kept."
            " Fix: look for the cause in the workers' logs, and run the same command to resume."
        )
        raise ClusterLost(message)

    def _begin(self, run: RunContext) -> None:
        async def stop_workers() -> None:
            await run.stop_media.wait()
            failure = run.stop.error or run.stop_media.error
            mark = StopMark(failure, only_media=run.stop.error is None)
            await write_stop(self._store, run_prefix(self._sequence), mark)

        works = (self._loader.run(run.counters, partial(stop_scans, run)), stop_workers(), self._watch_workers())
        self._background = [asyncio.create_task(work) for work in works]

    async def _enter(self, run: RunContext, batch: Batch) -> tuple[FollowedBatch, str]:
        before = await self._known_before(run, batch)
        spec = BatchSpec(
            run.run_id,
            run.started_at,
            run.resumed_runs,
            run.fresh_within,
            run.run_kind,
            run.mode,
            batch,
            self._api,
            before,
        )
        # One at a time, without gaps: a process that takes over reads batches up to the first missing number.
        async with self._specs:
            number = self._batches + 1
            prefix = batch_prefix(self._sequence, number)
            await write_spec(self._store, prefix, spec)
            self._batches = number
        last = {one.partition: one for one in before.checkpoints}
        partitions = [media(account.account_id, surface) for account in batch.accounts for surface in account.surfaces]
        expected = {partition: expected_items(last.get(partition)) for partition in partitions}
        for one in expected.values():
            run.counters.expect(one)
        return self._loader.follow(number, batch, expected), prefix

    async def _known_before(self, run: RunContext, batch: Batch) -> KnownBefore:
        warehouse = self._warehouse
        ids = [account.account_id for account in batch.accounts]
        of_posts = [account.account_id for account in batch.accounts if "posts" in account.surfaces]
        checkpoints = tuple((await warehouse.checkpoints("media", ids, run.run_kind)).values())
        unfinished = [one.scan_id for one in checkpoints if one.state is ScanState.SCANNING and one.pages]
        closed = await warehouse.closed_scans(of_posts)
        recent = {one: closed[one] for one in closed if why_full(closed[one], run.mode.incremental) is None}
        known = (
            await warehouse.known_posts(recent, older_than=run.resources.clock.now() - run.mode.lookback)
            if recent
            else {}
        )
        scopes = [account_scope(one) for one in ids]
        return KnownBefore(
            checkpoints,
            {scope: run.cooldowns[scope] for scope in scopes if scope in run.cooldowns},
            {scan_id: frozenset(await warehouse.seen(scan_id)) for scan_id in unfinished},
            dict(closed),
            dict(known),
            tuple((await warehouse.read(read_registry)).values()),
            tuple(await warehouse.read(joined_hashes, ids, most=_HASHES)),
        )

    async def _attempt(self, followed: FollowedBatch, prefix: str, attempt: int) -> BaseException | None:
        """Submit a batch, and wait until its log is merged or the attempt is lost; return the attempt's error."""
        submitted = await self._workers.submit(prefix, key=f"{self._key}/{prefix}-{attempt}")
        ended = asyncio.create_task(submitted.ended())
        try:
            await self._first(ended, followed.merged.wait())
            if followed.merged.is_set():
                return None
            if (error := ended.result()) is None:
                # The whole log is in the store; the loader may still be reading it.
                await self._first(followed.merged.wait())
            return error
        finally:
            submitted.release()

    async def _first(self, *waits: Any) -> None:  # noqa: ANN401
        """Wait for the first of these; raise the error of a background task (loader, watch, stop) if one fails."""
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        background = list(self._background)
        try:
            while True:
                done, _ = await asyncio.wait([*tasks, *background], return_when=asyncio.FIRST_COMPLETED)
                for task in done.intersection(background):
                    task.result()
                    background.remove(task)
                if done.intersection(tasks):
                    return
        finally:
            for task in tasks:
                task.cancel()

    async def _until_quiet(self, followed: FollowedBatch) -> None:
        """Wait while another attempt at a batch keeps writing its log, or until the whole log is merged."""
        before = -1
        while before != followed.log.last and not followed.merged.is_set():
            before = followed.log.last
            await self._first(followed.merged.wait(), self._clock.sleep(_QUIET))

    async def _watch_workers(self) -> None:
        """Poll whether there are workers. Raises ClusterLost if there were none for NO_WORKERS seconds."""
        seen_at = self._clock.monotonic()
        while True:
            if await self._has_workers():
                seen_at = self._clock.monotonic()
                self._are_workers_there.set()
            elif self._clock.monotonic() - seen_at >= NO_WORKERS:
                message = (
                    f"no Dask worker was available for {NO_WORKERS:.0f} s. Saved pages are kept."
                    " Fix: start the scheduler and its workers, and run the same command to resume."
                )
                raise ClusterLost(message)
            await self._clock.sleep(_WATCH_EVERY)

    async def _has_workers(self) -> bool:
        try:
            # Not `wait_for`: in Python 3.11 it may swallow the cancellation of its task.
            async with asyncio.timeout(_ANSWER):
                return await self._workers.are_there()
        except (OSError, TimeoutError):
            return False

    async def close(self, *, interrupted: bool) -> None:
        """Stop the loader and, if the run was interrupted, the batches on workers."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if interrupted:
            # Without the mark, workers end their batches as well, as soon as an entry is refused.
            with suppress(StoreError):
                await write_stop(self._store, run_prefix(self._sequence), StopMark())


@asynccontextmanager
async def open_batches(
    workers: DaskWorkers,
    settings: Settings,
    warehouse: Warehouse,
    *,
    clock: Clock,
    new_id: Callable[[], str],
    say: Say,
) -> AsyncIterator[WorkerBatches]:
    """Begin a run in the shared store, after merging the data that earlier runs left there.

    Raises SettingsError, StoreError, ClusterLost and WarehouseUnusable.
    """
    api = ApiAccess(
        settings.address(),
        settings.page_paths(),
        settings.media_mapping(),
        await warehouse.read(read_mapping),
        settings.page_size,
        settings.concurrency,
        settings.max_wait,
        settings.scan_expired,
    )
    url = settings.store_url()
    store = open_store(url, clock=clock)
    async with batches_on(workers, store, url, api, warehouse, clock=clock, new_id=new_id, say=say) as batches:
        yield batches


@asynccontextmanager
async def batches_on(
    workers: DaskWorkers,
    store: ObjectStore,
    store_url: str,
    api: ApiAccess,
    warehouse: Warehouse,
    *,
    clock: Clock,
    new_id: Callable[[], str],
    say: Say,
) -> AsyncIterator[WorkerBatches]:
    """Begin a run in the given store; see `open_batches`."""
    shared = await begin_shared_run(store, store_url, warehouse, clock=clock, new_id=new_id, say=say)
    batches = WorkerBatches(workers, store, shared.sequence, api, warehouse, clock, new_id)
    try:
        yield batches
    except BaseException:
        await batches.close(interrupted=True)
        raise
    await batches.close(interrupted=False)
    await shared.close(now=clock.now())
