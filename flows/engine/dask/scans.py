"""Puts the accounts of a run into tasks for workers, and lands what they return.

A task scans some accounts until it has 16 MB of pages, for at most a minute, and returns the pages and the accounts
that are left. A task that is lost with its worker is submitted again with what the run has learned since.
"""

import asyncio
import logging
import pickle
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count as counting
from typing import Any

from connectors.source.endpoints import account_scope
from flows.clock import SystemClock, new_id
from flows.config.errors import ClusterLost, SettingsError
from flows.config.release import release
from flows.config.settings import Settings
from flows.engine.concurrency import Slots
from flows.engine.dask.cluster import ANSWER, connected
from flows.engine.dask.task import WORKER_DIED, Scanned, Task, run_task, terms_of
from flows.engine.paging import AccountScan, Ended, scan_account, sleep_without_slot
from flows.engine.scan import ScanContext
from flows.reporting.words import count
from models.clock import Clock
from models.page_commit import PageCommit, ScopeCooldown

# Seconds without any worker after which a run gives up.
NO_WORKERS = 60.0

# Accounts of a task for each of its requests in flight, so that one with short scans lasts, and open accounts of a run.
_ACCOUNTS_PER_REQUEST = 8
_OPEN_ACCOUNTS = 1_000

# An account whose tasks were lost this often fails. The last of them has no other account, and runs alone.
_MOST_LOST = 3

# A wait for a cooldown lasts this many seconds longer: no rest of it may be left, which its budget would not cover.
_MARGIN = 0.01

_CHECK_EVERY = 1.0

_RESUME = "Saved pages are kept. Fix: start the scheduler and its workers, and run the same command to resume."
_NO_WORKER = f"no Dask worker was available for {NO_WORKERS:.0f} s. {_RESUME}"
_NO_SCHEDULER = f"the connection to the Dask scheduler was lost. {_RESUME}"

_log = logging.getLogger(__name__)


class _Call:
    """A call of `run_task`, made where it is unpickled.

    A worker that cannot import a submitted function ends without an error. Every worker can import `pickle.loads`.
    """

    def __init__(self, *arguments: object) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[object, ...]:
        return run_task, self._arguments


@dataclass(eq=False, slots=True)
class _Job:
    """An open account: `report` is called with its outcomes, and `ended` is done after the last one.

    `lost` tasks with this account, one after the other, have returned nothing.
    """

    account: AccountScan
    report: Ended
    ended: "asyncio.Future[None]"
    lost: int = 0


class DaskScans:
    """Scans the accounts of one run on workers.

    For each thread of a worker, two tasks are under way: one runs, and one is next, or its result is landing. That
    bounds the memory. Accounts are open in `slots`.
    """

    def __init__(self, client: Any, settings: Settings, threads: int) -> None:  # noqa: ANN401 - distributed has no types
        """Use a connected client, whose workers have some threads."""
        self._client = client
        self._threads = max(threads, 1)
        self._topic = f"gramhouse-{new_id()}"
        self._terms = terms_of(settings, self._topic)
        self._paths = settings.page_paths()
        self._concurrency = settings.concurrency
        self._most_accounts = _ACCOUNTS_PER_REQUEST * settings.concurrency
        self.slots = Slots(max(_OPEN_ACCOUNTS, 2 * threads * self._most_accounts))
        self._waiting: list[_Job] = []
        self._landing = asyncio.Lock()
        self._numbers = counting(1)
        # Tasks that have not returned, and those that have not landed.
        self._running = self._in_flight = 0
        self._reserved = 0
        self._background: set[asyncio.Future[None]] = set()
        # The error of a background task: every open account raises it.
        self._failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def scan_account(self, run: ScanContext, account: AccountScan, ended: Ended) -> None:
        """Scan an account in as many tasks as it takes; see `flows.engine.paging.scan_account`.

        Raises ClusterLost, SettingsError (of a worker), and the errors of `run.land`.
        """
        if not self._background:
            self._spawn(self._watch(SystemClock()))
            self._spawn(self._pass_on_stop(run))
        job = _Job(account, ended, asyncio.get_running_loop().create_future())
        self._waiting.append(job)
        # After other accounts that come at the same time.
        asyncio.get_running_loop().call_soon(self._submit, run)
        waits: set[asyncio.Future[Any]] = {job.ended, self._failed}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not job.ended.done():
            raise self._failed.result()

    def _spawn(self, work: Awaitable[None]) -> None:
        """Run a background task; if it fails, all scans raise its error."""
        task = asyncio.ensure_future(work)
        self._background.add(task)

        def ended(task: asyncio.Future[None]) -> None:
            self._background.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
                self._failed.set_result(error)

        task.add_done_callback(ended)

    def _submit(self, run: ScanContext) -> None:
        """Form tasks of the accounts that wait, as long as there are threads for them."""
        most = run.request.max_requests
        if run.stop_media.failure is not None or (most is not None and run.progress.requests >= most):
            run.stop_media.wake()
            for job in self._waiting:
                self._spawn(self._end(run, job, None))
            self._waiting.clear()
        while (share := self._share(run)) != 0 and (jobs := self._take()):
            self._running += 1
            self._in_flight += 1
            self._reserved += share or 0
            self._spawn(self._carry_out(run, jobs, share))

    def _share(self, run: ScanContext) -> int | None:
        """Return how many requests the next task may make; None: as many as it needs."""
        if run.request.max_requests is None:
            return None
        return max(0, -(-(run.request.max_requests - run.progress.requests - self._reserved) // 2))

    def _take(self) -> list[_Job]:
        """Return the accounts of the next task: of a thread that is free, or if there are enough, of one that is next.

        Scans that have begun go first: a long one would delay the end of the run. The accounts of a lost task go last,
        in smaller tasks, and in the end one by one without other tasks, so that one that ends workers is found.
        """
        idle = self._threads - self._running
        is_enough = len(self._waiting) >= (1 if idle > 0 else self._concurrency)
        if not is_enough or self._in_flight >= 2 * self._threads:
            return []
        self._waiting.sort(key=lambda job: (job.lost, job.account.scan is None))
        lost = self._waiting[0].lost
        if lost == _MOST_LOST - 1 and self._in_flight:
            return []
        most = (self._most_accounts, self._concurrency, 1)[lost]
        most = min(most, -(-len(self._waiting) // max(idle, 1)))
        jobs = [job for job in self._waiting[:most] if job.lost == lost]
        del self._waiting[: len(jobs)]
        return jobs

    async def _carry_out(self, run: ScanContext, jobs: Sequence[_Job], share: int | None) -> None:
        """Submit a task, land what it returns, and let its accounts that are left wait for the next one."""
        topic = f"{self._topic}/{next(self._numbers)}"
        now, monotonic, accounts = run.clock.now(), run.clock.monotonic(), [job.account for job in jobs]
        of_scope = {job.account.budget.scope: job for job in jobs}
        rate = run.pacer.rate.times(1 / self._threads)
        task = Task(now, monotonic, run.request, run.beginning, self._paths, self._concurrency, share, accounts, rate)
        self._client.subscribe_topic(topic, partial(self._on_event, run, of_scope))
        call = pickle.dumps(_Call(self._terms, topic, pickle.dumps(task)))
        future = self._client.submit(pickle.loads, call, pure=False)
        try:
            result = await _result(future)
            running = self._running
            self._running -= 1
            self._submit(run)
            # One at a time, because each is much larger when it is unpacked.
            async with self._landing:
                scanned = await asyncio.to_thread(Scanned.unpack, result)
                if isinstance(scanned, Scanned):
                    await self._land(run, of_scope, scanned, running)
        finally:
            future.release()
            self._client.unsubscribe_topic(topic)
            self._in_flight -= 1
            self._reserved -= share or 0
        if not isinstance(scanned, Scanned):
            _log.warning("A task of %s was lost: %s. They are scanned again.", count(len(jobs), "account"), scanned)
            # How many requests it made is not known.
            run.progress.requests += share or 0
            for job in jobs:
                job.lost += 1
                if job.lost == _MOST_LOST:
                    message = f"its tasks were lost {_MOST_LOST} times, at last because {scanned}"
                    self._spawn(self._end(run, job, message))
                else:
                    self._waiting.append(job)
        self._submit(run)

    async def _land(self, run: ScanContext, of_scope: Mapping[str, _Job], scanned: Scanned, running: int) -> None:
        """Land the commits of a result; its cooldowns were events, which arrived before it.

        At its end, `running` tasks shared what the service allows.
        """
        await asyncio.gather(*(run.land(commit) for commit in scanned.commits))
        run.progress.add(scanned.progress)
        found, known = scanned.rate, run.pacer.rate
        if found.answered_at > known.answered_at:
            is_new = found.allowed is not None and found.found_at > known.found_at
            allowed = (found.allowed or 0.0) * running if is_new else known.allowed
            # The task may have had the share of fewer or more threads of what the setting allows.
            of_run = found.times(self._threads)
            run.adopt(replace(of_run, allowed=allowed, fixed=known.fixed, at_first=known.at_first))
        for commit in scanned.commits:
            for outcome in commit.outcomes:
                of_scope[account_scope(outcome.partition.account_id)].report(outcome)
        for failure, stop in ((scanned.stops_media, run.stop_media), (scanned.stops_run, run.stop)):
            if failure is not None:
                stop.set(failure)
        left = {account.budget.scope: (account, seconds) for account, seconds in scanned.left}
        for scope, job in of_scope.items():
            if scope not in left:
                job.ended.set_result(None)
                continue
            job.account, seconds = left[scope]
            job.lost = 0
            if seconds:
                self._spawn(self._wait(run, job, seconds))
            else:
                self._waiting.append(job)

    async def _wait(self, run: ScanContext, job: _Job, seconds: float) -> None:
        budget = job.account.budget
        await sleep_without_slot(run, seconds + _MARGIN)
        # The task has spent the whole wait, which may have ended early.
        budget.waited -= budget.due(run.clock.monotonic())
        self._waiting.append(job)
        self._submit(run)

    async def _end(self, run: ScanContext, job: _Job, lost: str | None) -> None:
        """Land the outcomes of an account that no task scans: because of its lost tasks, or what ended all scans."""
        await scan_account(run, job.account, job.report, lost=lost)
        job.ended.set_result(None)

    def _on_event(self, run: ScanContext, of_scope: Mapping[str, _Job], event: tuple[float, Sequence[Any]]) -> None:
        kind, *facts = event[1]
        if kind == "cooldown":
            scope, seconds = facts
            now, monotonic = run.clock.now(), run.clock.monotonic()
            budget = of_scope[scope].account.budget
            budget.start_cooldown(seconds, monotonic)
            run.progress.cooldowns[scope] = until = budget.resume_after(now, monotonic)
            self._spawn(run.land(PageCommit(cooldown=ScopeCooldown(scope, until, now))))

    async def _pass_on_stop(self, run: ScanContext) -> None:
        """Let tasks end once an error stopped the run or its media scans, or no requests are left."""
        await run.stop_media.wait()
        self._submit(run)
        with suppress(OSError):
            await self._client.log_event(self._topic, "stop")

    async def _watch(self, clock: Clock) -> None:
        """Adapt to the workers that there are. Raises ClusterLost if there are none for NO_WORKERS seconds."""
        seen_at = clock.monotonic()
        while True:
            # Not `wait_for`: in Python 3.11 it may swallow the cancellation of its task.
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(ANSWER):
                    if threads := sum((await self._client.nthreads()).values()):
                        self._threads, seen_at = threads, clock.monotonic()
            if clock.monotonic() - seen_at >= NO_WORKERS:
                raise ClusterLost(_NO_WORKER)
            await clock.sleep(_CHECK_EVERY)

    async def close(self) -> None:
        """End the tasks that are under way, without their results."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)


async def _result(future: Any) -> bytes | str:  # noqa: ANN401
    """Return what a task returned, or why it was lost. Raises ClusterLost and SettingsError."""
    from distributed import KilledWorker  # noqa: PLC0415
    from distributed.client import FutureCancelledError  # noqa: PLC0415

    try:
        return await future  # type: ignore[no-any-return]
    except KilledWorker:
        return WORKER_DIED
    except (ImportError, AttributeError) as error:
        # Of a worker that has no `run_task`: it does not name itself.
        raise SettingsError(
            f"a worker cannot run the tasks of gramhouse {release()} ({error}). Fix: install it on all workers."
        ) from error
    except (FutureCancelledError, OSError) as error:
        raise ClusterLost(_NO_SCHEDULER) from error


@asynccontextmanager
async def open_workers(settings: Settings) -> AsyncIterator[DaskScans]:
    """Connect to workers, or start some on this machine. Raises SettingsError and ClusterLost."""
    async with connected(settings) as client:
        try:
            await client.wait_for_workers(1, timeout=NO_WORKERS)
        except TimeoutError as error:
            raise ClusterLost(_NO_WORKER) from error
        scans = DaskScans(client, settings, sum((await client.nthreads()).values()))
        try:
            yield scans
        finally:
            await scans.close()
