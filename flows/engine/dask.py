"""Scans on a Dask cluster: workers fetch pages in bounded tasks, and this process lands what they return.

A task scans some accounts until it has 16 MB of pages, for at most a minute, and returns the pages and the accounts
that are left. If a worker dies, Dask runs its tasks again elsewhere, and only one result of each arrives. No worker's
clock is used: a task continues the clock of the run by the seconds since it began.
"""

import asyncio
import logging
import math
import pickle
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count as counting
from typing import Any
from urllib.parse import urlsplit

from connectors.source.endpoints import MEDIA, account_scope
from connectors.source.errors import client_error
from connectors.source.rate_limit import RateLimitBudget
from flows.config.errors import ClusterLost, SettingsError
from flows.config.release import release
from flows.config.setting_sources import PREFIX
from flows.config.settings import Settings, set_by
from flows.engine.accounts import AccountScan, fail_account, scan_account
from flows.engine.clock import SystemClock, new_id
from flows.engine.concurrency import Slots
from flows.engine.dask_task import Scanned, Task, run_task, terms_of
from flows.engine.scan import ScanContext, sleep_without_slot
from flows.reporting.words import count
from models.clock import Clock
from models.page_commit import PageCommit, ScopeCooldown
from models.runs import Outcome

# Seconds without any worker after which a run gives up.
NO_WORKERS = 60.0

# A thread runs one task while its next one waits. More would only take memory here.
_TASKS_PER_THREAD = 2

# Accounts of a task for each of its requests in flight, so that one with short scans lasts, and open accounts of a run.
_ACCOUNTS_PER_REQUEST = 8
_OPEN_ACCOUNTS = 1_000

# Turns of the event loop within which accounts that come at the same time arrive.
_TURNS = 5

# A wait for a cooldown lasts this many seconds longer: no rest of it may be left, which its budget would not cover.
_MARGIN = 0.01

_CHECK_EVERY, _ANSWER = 1.0, 10.0

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
    """An account in a task: once `is_back`, its outcomes, and what is left of it, which waits `until` a time.

    `is_back` is False if the task was lost.
    """

    account: AccountScan
    is_alone: bool
    is_back: "asyncio.Future[bool]"
    is_ended: bool = True
    until: float = -math.inf
    outcomes: list[Outcome] = field(default_factory=list)


class DaskScans:
    """Scans the accounts of one run on workers.

    At most two tasks of each thread are under way, and accounts are open in `slots`: that bounds the memory.
    """

    def __init__(self, client: Any, settings: Settings, threads: int) -> None:  # noqa: ANN401 - distributed has no types
        """Use a connected client, whose workers have some threads."""
        self._client = client
        self._topic = f"gramhouse-{new_id()}"
        self._terms = terms_of(settings, self._topic)
        self._paths = settings.page_paths()
        self._concurrency = settings.concurrency
        self._most_accounts = _ACCOUNTS_PER_REQUEST * settings.concurrency
        self._threads = threads
        open_accounts = max(_OPEN_ACCOUNTS, _TASKS_PER_THREAD * threads * self._most_accounts)
        self.slots = Slots(open_accounts, in_flight=settings.concurrency)
        self._waiting: list[_Job] = []
        self._changed = asyncio.Event()
        self._landing = asyncio.Lock()
        self._numbers = counting(1)
        self._is_submitting = False
        self._in_flight = 0
        self._reserved = 0
        self._until: dict[str, float] = {}
        self._cooling: set[asyncio.Task[None]] = set()
        self._background: set[asyncio.Task[None]] = set()
        # The error of a background task: every open account raises it.
        self._failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def scan_account(self, run: ScanContext, account: AccountScan, ended: Callable[[Outcome], None]) -> None:
        """Scan an account in as many tasks as it takes; see `flows.engine.accounts.scan_account`.

        Raises ClusterLost, SettingsError (of a worker), and the errors of `run.land`.
        """
        is_alone = False
        while not self._is_over(run):
            job = await self._in_task(run, account, is_alone=is_alone)
            for outcome in job.outcomes:
                ended(outcome)
            if job.is_back.result() and job.is_ended:
                run.progress.accounts_done += 1
                return
            if not job.is_back.result() and not self._is_over(run):
                if job.is_alone:
                    message = "its task ended every worker on which it ran, or its result could not be read"
                    await fail_account(run, account, client_error(MEDIA, "worker_lost", message), ended)
                    run.progress.accounts_done += 1
                    return
                is_alone = True
            account, monotonic = job.account, run.clock.monotonic()
            account.budget.start_cooldown(self._until.get(account.budget.scope, -math.inf) - monotonic, monotonic)
            if job.until > monotonic:
                await self._first(sleep_without_slot(run, run.stop_media, job.until - monotonic + _MARGIN))
        # Ends without a request, with the outcome of the error or of the limit.
        await scan_account(run, account, ended)

    async def _in_task(self, run: ScanContext, account: AccountScan, *, is_alone: bool) -> _Job:
        """Return the account's job once it is back."""
        if not self._is_submitting:
            self._is_submitting = True
            self.spawn(self._submit(run))
            self.spawn(self._pass_on_stop(run))
        job = _Job(account, is_alone, asyncio.get_running_loop().create_future())
        # Scans that have begun go first: a long one would delay the end of the run.
        self._waiting.insert(len(self._waiting) if account.scan is None else 0, job)
        self._changed.set()
        await self._first(job.is_back)
        return job

    async def _first(self, work: Awaitable[Any]) -> None:
        """Wait for something. Raises the error of a background task if one fails before."""
        waiting = asyncio.ensure_future(work)
        waits: set[asyncio.Future[Any]] = {waiting, self._failed}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise self._failed.result()
        finally:
            waiting.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a background task; if it fails, all scans raise its error."""
        task = asyncio.create_task(work)
        self._background.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._background.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None and not self._failed.done():
                self._failed.set_result(error)

        task.add_done_callback(ended)

    def _is_over(self, run: ScanContext) -> bool:
        most = run.options.max_requests
        return run.stop_media.failure is not None or (most is not None and run.progress.requests >= most)

    async def _submit(self, run: ScanContext) -> None:
        """Form tasks of the accounts that wait, as long as there are threads for them."""
        while True:
            await self._changed.wait()
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            self._changed.clear()
            if self._is_over(run):
                for job in self._waiting:
                    job.is_back.set_result(False)
                self._waiting.clear()
            while (share := self._share(run)) != 0 and (jobs := self._take()):
                self._in_flight += 1
                self._reserved += share or 0
                self.spawn(self._carry_out(run, jobs, share))

    def _share(self, run: ScanContext) -> int | None:
        """Return how many requests the next task may make; None: as many as it needs."""
        if run.options.max_requests is None:
            return None
        left = run.options.max_requests - run.progress.requests - self._reserved
        return max(left // 2, min(left, 1), 0)

    def _take(self) -> list[_Job]:
        """Return the accounts of the next task: of a thread that is free, or if there are enough, of one that is next.

        An account whose task was lost is alone in the next one.
        """
        idle = self._threads - self._in_flight
        are_enough = idle > 0 or (idle > -self._threads and len(self._waiting) >= self._concurrency)
        if not self._waiting or not are_enough:
            return []
        most = min(self._most_accounts, -(-len(self._waiting) // max(idle, 1)))
        jobs = [job for job in self._waiting if not job.is_alone][:most] or self._waiting[:1]
        self._waiting = [job for job in self._waiting if job not in jobs]
        return jobs

    async def _carry_out(self, run: ScanContext, jobs: Sequence[_Job], share: int | None) -> None:
        """Submit a task, and land what it returns."""
        topic, options = f"{self._topic}/{next(self._numbers)}", replace(run.options, max_requests=None)
        now, monotonic, accounts = run.clock.now(), run.clock.monotonic(), [job.account for job in jobs]
        task = Task(now, monotonic, options, self._paths, self._concurrency, share, accounts)
        self._client.subscribe_topic(topic, partial(self._on_event, run))
        call = pickle.dumps(_Call(self._terms, topic, pickle.dumps(task)))
        future = self._client.submit(pickle.loads, call, pure=False)
        try:
            packed = await _result(future)
            arrived = run.clock.monotonic()
            # One at a time, because each is much larger when it is unpacked.
            async with self._landing:
                scanned = None if packed is None else await asyncio.to_thread(Scanned.unpack, packed)
                if scanned is not None:
                    await self._land(run, jobs, scanned, arrived)
        finally:
            future.release()
            self._client.unsubscribe_topic(topic)
            self._in_flight -= 1
            self._reserved -= share or 0
            self._changed.set()
        if scanned is None:
            _log.warning("A task of %s was lost; they are scanned again.", count(len(jobs), "account"))
            # How many requests it made is not known.
            run.progress.requests += share or 0
        for job in jobs:
            job.is_alone = len(jobs) == 1
            job.is_back.set_result(scanned is not None)

    async def _land(self, run: ScanContext, jobs: Sequence[_Job], scanned: Scanned, arrived: float) -> None:
        """Land the commits of a result, then its cooldowns; complete the jobs."""
        await asyncio.gather(*(run.land(commit) for commit in scanned.commits))
        await asyncio.gather(*self._cooling)
        run.progress.add(scanned.progress)
        of_scope = {job.account.budget.scope: job for job in jobs}
        for commit in scanned.commits:
            for outcome in commit.outcomes:
                of_scope[account_scope(outcome.partition.account_id)].outcomes.append(outcome)
        # Waits last as long as on the worker, and begin when the result arrived.
        later = arrived - scanned.ended_at
        for account, until in scanned.left:
            account.budget.not_before += later
            job = of_scope[account.budget.scope]
            job.account, job.is_ended, job.until = account, False, until + later
        if scanned.stops_media is not None:
            run.stop_media.set(scanned.stops_media)
        if scanned.stops_run is not None:
            run.stop.set(scanned.stops_run)

    def _on_event(self, run: ScanContext, event: tuple[float, Sequence[Any]]) -> None:
        kind, *facts = event[1]
        if kind == "cooldown":
            cooling = asyncio.create_task(self._start_cooldown(run, *facts))
            self._cooling.add(cooling)
            cooling.add_done_callback(self._cooling.discard)

    async def _start_cooldown(self, run: ScanContext, scope: str, seconds: float) -> None:
        now, monotonic = run.clock.now(), run.clock.monotonic()
        cooldown = RateLimitBudget(scope, 0.0, monotonic + seconds)
        self._until[scope] = cooldown.not_before
        run.progress.cooldowns[scope] = until = cooldown.resume_after(now, monotonic)
        await run.land(PageCommit(cooldown=ScopeCooldown(scope, until, now)))

    async def _pass_on_stop(self, run: ScanContext) -> None:
        """Let tasks end once an error stopped the run or its media scans."""
        await run.stop_media.wait()
        self._changed.set()
        with suppress(OSError):
            await self._client.log_event(self._topic, "stop")

    async def watch(self, clock: Clock) -> None:
        """Adapt to the workers that there are. Raises ClusterLost if there are none for NO_WORKERS seconds."""
        seen_at = clock.monotonic()
        while True:
            await clock.sleep(_CHECK_EVERY)
            threads = await _threads(self._client)
            if threads:
                seen_at = clock.monotonic()
            elif clock.monotonic() - seen_at >= NO_WORKERS:
                raise ClusterLost(_NO_WORKER)
            if threads != self._threads:
                self._threads = threads
                self._changed.set()

    async def close(self) -> None:
        """End the tasks that are under way, without their results."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)


async def _result(future: Any) -> bytes | None:  # noqa: ANN401
    """Return the result of a task; None if it ends its workers.

    Raises ClusterLost, SettingsError, and errors of the task.
    """
    from distributed import KilledWorker  # noqa: PLC0415
    from distributed.client import FutureCancelledError  # noqa: PLC0415

    try:
        return await future  # type: ignore[no-any-return]
    except KilledWorker:
        return None
    except (ImportError, AttributeError) as error:
        # Of a worker that has no `run_task`: it does not name itself.
        message = f"a worker cannot run the tasks of gramhouse {release()} ({error}). Fix: install it on all workers."
        raise SettingsError(message) from error
    except (FutureCancelledError, OSError) as error:
        raise ClusterLost(_NO_SCHEDULER) from error


async def _threads(client: Any) -> int:  # noqa: ANN401
    """Return the number of threads of all workers; 0 if the scheduler does not answer."""
    try:
        # Not `wait_for`: in Python 3.11 it may swallow the cancellation of its task.
        async with asyncio.timeout(_ANSWER):
            return sum((await client.nthreads()).values())
    except (OSError, TimeoutError):
        return 0


def _check(scheduler: str) -> None:
    """Check the address of a scheduler. Raises SettingsError."""
    parts = urlsplit(scheduler)
    if parts.scheme not in ("tls", "tcp") or not parts.hostname:
        message = f"{set_by('scheduler')}: it is not the address of a Dask scheduler. Fix: write tls://host:8786."
        raise SettingsError(message)
    if parts.scheme == "tcp" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        message = (
            f"{set_by('scheduler')}: a scheduler on another machine needs TLS, because any process that"
            " reaches it can run code on the workers. Fix: tls:// and certificates, see docs/scale.md."
        )
        raise SettingsError(message)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Make processes started in the block ignore Ctrl-C, which a terminal sends to all processes at once.

    Does nothing outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@asynccontextmanager
async def _connected(settings: Settings) -> AsyncIterator[Any]:
    """Connect to the scheduler of the settings, or start workers on this machine. Raises SettingsError."""
    try:
        from distributed import Client, LocalCluster  # noqa: PLC0415 - a part of an extra
    except ImportError as error:
        message = "GRAMHOUSE_ENGINE=dask needs a library that is not installed. Fix: pip install 'gramhouse[dask]'."
        raise SettingsError(message) from error
    # Each has a level of its own.
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    async with AsyncExitStack() as stack:
        target: Any = settings.scheduler
        if settings.scheduler is not None:
            _check(settings.scheduler)
        else:
            cluster = LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=settings.workers,
                threads_per_worker=1,
                # They may have come from the command line, or from Prefect.
                env={f"{PREFIX}BASE_URL": settings.address(), f"{PREFIX}API_KEY": settings.key().get_secret_value()},
                asynchronous=True,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
                # A worker that hangs is replaced after this time.
                scheduler_kwargs={"worker_ttl": "60 s"},
            )
            with _without_interrupts():
                target = await stack.enter_async_context(cluster)
        try:
            connecting = Client(target, asynchronous=True, set_as_default=False, timeout=_ANSWER)  # type: ignore[no-untyped-call]
            client = await stack.enter_async_context(connecting)
        except (OSError, TimeoutError) as error:
            message = f"the Dask scheduler {target} does not answer. Fix: start it, or correct GRAMHOUSE_SCHEDULER."
            raise SettingsError(message) from error
        yield client


async def count_workers(settings: Settings) -> int:
    """Return the number of the scheduler's workers. Raises SettingsError."""
    async with _connected(settings) as client:
        return len(await client.nthreads())


@asynccontextmanager
async def open_workers(settings: Settings) -> AsyncIterator[DaskScans]:
    """Connect to workers, or start some on this machine. Raises SettingsError and ClusterLost."""
    async with _connected(settings) as client:
        try:
            await client.wait_for_workers(1, timeout=NO_WORKERS)
        except TimeoutError as error:
            raise ClusterLost(_NO_WORKER) from error
        scans = DaskScans(client, settings, await _threads(client))
        scans.spawn(scans.watch(SystemClock()))
        try:
            yield scans
        finally:
            await scans.close()
