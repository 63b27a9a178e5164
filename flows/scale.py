"""Scans on Dask workers: they fetch pages in bounded pieces, and the run lands what they return.

`open_workers` gives a run its `scan_elsewhere`; all else is the same with workers and without. Only the run lands and
merges, because one process may write the warehouse. No clock of a worker is stored: a piece continues the clock of the
run by the seconds since it was sent.
"""

import asyncio
import hashlib
import logging
import pickle
import signal
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, replace
from datetime import datetime
from random import SystemRandom
from typing import Any

from connectors.source.client import ApiClient
from connectors.source.errors import Failure
from connectors.source.request_rate import RequestRate
from connectors.source.retry import Send
from flows.clock import ContinuedClock, SystemClock, new_id
from flows.config.errors import ClusterLost, SettingsError
from flows.config.setting_sources import PREFIX
from flows.config.settings import Settings, load
from flows.engine.pages import Scanner
from flows.engine.requests import Land, Requests, StopRun
from flows.engine.resources import make_client, open_resources
from flows.engine.run import Run, ScanElsewhere
from flows.engine.run_request import RunRequest
from flows.engine.scan import AccountScan
from flows.pipeline import DIRECT, Steps, run_sync
from flows.reporting.progress import Progress
from flows.reporting.run_report import RunReport
from models import release
from models.landing import PageCommit
from models.mapping import Mapping as MediaMapping

# The bounds of a piece: bytes of pages, and seconds. It leaves sleeps of more than MOST_SLEEP seconds to the run.
MOST_BYTES = 16 * 1024 * 1024
MOST_SECONDS = 60.0
MOST_SLEEP = 1.0

# Accounts of a piece for each of its requests in flight, so that one with short scans lasts.
_ACCOUNTS_PER_REQUEST = 8

# Seconds within which a scheduler must answer, and without any worker after which a run gives up.
_ANSWER = 10.0
NO_WORKERS = 60.0

_RESUME = (
    "Saved pages are kept. Fix: start the scheduler and its workers, and run the same command to resume; if they fail"
    " again, run it without workers"
)

# The settings that a worker has from its own environment.
_OF_THE_WORKER = ("base_url", "api_key", "api_key_file")


@dataclass(frozen=True, slots=True)
class Piece:
    """What a worker scans, and how. `sent_at` and `monotonic` are the run's clock. It has no API key."""

    request: RunRequest
    run_id: str
    resumed: tuple[str, ...]
    mapping: MediaMapping
    sent_at: datetime
    monotonic: float
    rate: RequestRate
    accounts: Sequence[AccountScan]


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a worker returns of a piece: what the run lands, in order, and the state of its accounts in theirs."""

    accounts: Sequence[AccountScan]
    commits: list[PageCommit]
    progress: Progress
    rate: RequestRate
    stopped_by: Failure | None = None


class Leave(Exception):  # noqa: N818 - not an error
    """A scan ends between two requests, and continues in another piece after `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class PieceRequests(Requests):
    """The requests of a piece: none begins beyond its bounds, and long sleeps are left to the run."""

    def __init__(self, piece: Piece, ask: Send, clock: ContinuedClock, land: Land) -> None:
        """Let `ask` make a request, and `land` take what lands."""
        super().__init__(piece.request, ask, piece.rate, clock, SystemRandom().random, land, Progress())
        self.left_bytes = MOST_BYTES
        self._ends_at = piece.monotonic + MOST_SECONDS

    def check(self) -> None:
        """Raise Leave if the piece has all that it may have."""
        if self.left_bytes <= 0 or self.clock.monotonic() >= self._ends_at:
            raise Leave(0.0)

    async def sleep(self, seconds: float) -> None:
        """Sleep before the next request. Raises Leave if that takes long."""
        if seconds > MOST_SLEEP:
            raise Leave(seconds)
        await super().sleep(seconds)


class PieceScanner(Scanner):
    """Scans a piece. The run makes durable what it lands."""

    def __init__(self, piece: Piece, ask: Send, clock: ContinuedClock) -> None:
        """Let `ask` make a request."""
        self.commits: list[PageCommit] = []
        self.requests: PieceRequests = PieceRequests(piece, ask, clock, self.land)
        super().__init__(piece.request, piece.run_id, piece.resumed, piece.mapping, self.requests, new_id)

    async def land(self, commit: PageCommit) -> None:
        """Keep a commit."""
        self.commits.append(commit)
        self.requests.left_bytes -= len(commit.page.body) if commit.page else 0


async def scan_piece(piece: Piece, client: ApiClient, clock: ContinuedClock) -> Scanned:
    """Scan the accounts of a piece until it has MOST_BYTES of pages, for MOST_SECONDS, or until all of them wait."""
    scanner = PieceScanner(piece, client.send, clock)
    stopped_by: Failure | None = None

    async def scan(account: AccountScan) -> None:
        nonlocal stopped_by
        try:
            await scanner.scan_account(account)
        except Leave as leave:
            account.pause = max(leave.seconds, account.budget.due(clock.monotonic()))
        except StopRun as stop:
            stopped_by = stop.failure
            # The requests of the others would fail, too.
            scanner.requests.left_bytes = 0

    await asyncio.gather(*map(scan, piece.accounts))
    return Scanned(piece.accounts, scanner.commits, scanner.progress, scanner.requests.rate, stopped_by)


def describe_terms(settings: Settings, salt: str) -> str:
    """Return what run and workers must have in common. The salt makes the fingerprint of the key useless elsewhere."""
    key = hashlib.blake2b(settings.key().get_secret_value().encode(), key=salt.encode(), digest_size=8).hexdigest()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    what = f"gramhouse {release()}, Python {python}, the address {settings.address()}"
    return f"{what}, an API key with the fingerprint {key}"


def run_piece(terms: str, salt: str, packed: bytes) -> bytes:
    """Scan a piece on a worker, with the address and the key of its own environment; no clock of it is stored.

    Raises SettingsError if the worker differs from the run.
    """
    from distributed import get_worker  # noqa: PLC0415 - a part of an extra

    name = f"the worker {get_worker().address}"
    try:
        settings = load()
        own = describe_terms(settings, salt)
    except SettingsError as error:
        raise SettingsError(f"{name}: {error}") from None
    if own != terms:
        fix = "start the workers with the installation and the settings of the run"
        raise SettingsError(f"{name} has {own}; the run has {terms}. Fix: {fix}.")
    # After the check: another version may not be able to read it.
    piece: Piece = pickle.loads(packed)  # noqa: S301 - the scheduler's clients can run any code here
    clock = ContinuedClock(SystemClock(), piece.sent_at, piece.monotonic)
    own_ones = {name: getattr(settings, name) for name in _OF_THE_WORKER}

    async def scan() -> Scanned:
        async with make_client(piece.request.settings.model_copy(update=own_ones), clock) as client:
            return await scan_piece(piece, client, clock)

    return pickle.dumps(asyncio.run(scan()))


class _Call:
    """A call of `run_piece`, made where it is unpickled.

    A worker that cannot import a submitted function ends without an error. Every worker can import `pickle.loads`.
    """

    def __init__(self, *arguments: object) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[object, ...]:
        return run_piece, self._arguments


class Workers:
    """Scans the accounts of a run in pieces. For each thread of a worker one piece runs, and one is next."""

    def __init__(self, client: Any, threads: int, settings: Settings) -> None:  # noqa: ANN401 - distributed has no types
        """Use a connected client, whose workers have some threads."""
        self._client = client
        self._threads = threads
        self._pieces = asyncio.Semaphore(2 * threads)
        self._most_accounts = _ACCOUNTS_PER_REQUEST * settings.concurrency
        self._salt = new_id()
        self._terms = describe_terms(settings, self._salt)
        self._rate: RequestRate | None = None
        self._waiting: list[tuple[AccountScan, asyncio.Future[None]]] = []

    async def scan_elsewhere(self, run: Run, account: AccountScan) -> None:
        """Scan what is left of an account in as many pieces as it takes; see `Scanner.scan_account`.

        Raises StopRun, ClusterLost, and SettingsError of a worker.
        """
        while account.left:
            await self._scan_with_others(run, account)
            if account.pause:
                began = run.clock.monotonic()
                await run.requests.sleep(account.pause)
                account.budget.waited += run.clock.monotonic() - began
                account.pause = 0.0

    async def _scan_with_others(self, run: Run, account: AccountScan) -> None:
        """Wait until a piece has scanned the account.

        Each account that waits sends one piece of those that wait. If that raises, all others are cancelled.
        """
        scanned: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((account, scanned))
        # After others that come at the same time.
        await asyncio.sleep(0)
        async with self._pieces:
            most = min(self._most_accounts, -(-len(self._waiting) // self._threads))
            taken, self._waiting = self._waiting[:most], self._waiting[most:]
            if taken:
                await self._scan_piece(run, [each for each, _ in taken])
            for _, waiting in taken:
                if not waiting.done():
                    waiting.set_result(None)
        await scanned

    async def _scan_piece(self, run: Run, accounts: list[AccountScan]) -> None:
        """Let a worker scan accounts until it returns them, land what it did, and update them."""
        settings = run.request.settings.model_copy(update=dict.fromkeys(_OF_THE_WORKER))
        if (rate := self._rate) is None:
            rate = run.resources.rate
            rate = replace(rate, fixed=rate.fixed and rate.fixed / self._threads)
        piece = Piece(
            replace(run.request, settings=settings),
            run.run_id,
            run.resumed,
            run.resources.warehouse.files.mapping,
            run.clock.now(),
            run.clock.monotonic(),
            rate,
            accounts,
        )
        call = pickle.dumps(_Call(self._terms, self._salt, pickle.dumps(piece)))
        future = self._client.submit(pickle.loads, call, pure=False)
        try:
            scanned: Scanned = pickle.loads(await self._result(future))  # noqa: S301 - from our own worker
        finally:
            # Otherwise its bytes stay on the worker, and are computed again if that dies.
            future.release()
        await asyncio.gather(*map(run.land, scanned.commits))
        self._rate = scanned.rate
        for name in ("pages", "items", "requests", "retries", "restarted", "refused"):
            setattr(run.progress, name, getattr(run.progress, name) + getattr(scanned.progress, name))
        run.progress.cooldowns.update(scanned.progress.cooldowns)
        for account, found in zip(accounts, scanned.accounts, strict=True):
            for each in fields(AccountScan):
                setattr(account, each.name, getattr(found, each.name))
        if scanned.stopped_by is not None:
            raise StopRun(scanned.stopped_by)

    async def _result(self, future: Any) -> bytes:  # noqa: ANN401
        waiting = asyncio.ensure_future(future.result())
        try:
            while not waiting.done():
                await asyncio.wait((waiting,), timeout=NO_WORKERS)
                if not waiting.done() and not await self._client.nthreads():
                    raise TimeoutError(f"no Dask worker was available for {NO_WORKERS:.0f} s")  # noqa: TRY301
            return await waiting  # type: ignore[no-any-return]
        except SettingsError:
            raise
        except (ImportError, AttributeError) as error:
            # Of a worker that has no `run_piece`: it does not name itself.
            what = f"a worker cannot scan for gramhouse {release()} ({error})"
            raise SettingsError(f"{what}. Fix: install it on all workers.") from error
        except Exception as error:
            raise ClusterLost(f"the Dask scheduler, or a worker, failed ({error!r}). {_RESUME}.") from error
        finally:
            waiting.cancel()


async def _start_workers(stack: AsyncExitStack, settings: Settings) -> Any:  # noqa: ANN401
    from distributed import LocalCluster  # noqa: PLC0415

    environment = {
        # They may have come from the command line, or from Prefect.
        f"{PREFIX}BASE_URL": settings.address(),
        f"{PREFIX}API_KEY": settings.key().get_secret_value(),
        # Dask's statistical profiler takes 2 % of the time of a worker.
        "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    }
    cluster = LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=settings.workers,
        threads_per_worker=1,
        env=environment,
        asynchronous=True,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
        # Temporary credentials: no other user of this machine can reach the workers, which have the API key.
        security=True,
        # A worker that hangs is replaced after this time.
        scheduler_kwargs={"worker_ttl": "60 s"},
    )
    # They ignore Ctrl-C, which a terminal sends to them, too.
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        return await stack.enter_async_context(cluster)
    except (OSError, RuntimeError, TimeoutError) as error:
        raise ClusterLost(f"workers on this machine do not start ({error}). Fix: lower GRAMHOUSE_WORKERS.") from error
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)


@asynccontextmanager
async def open_workers(request: RunRequest) -> AsyncIterator[ScanElsewhere | None]:
    """Connect to the scheduler of the settings, or start workers here; yield what scans an account there.

    None if the settings want neither, and if the number of requests is limited: only this process can count them.
    Raises SettingsError and ClusterLost.
    """
    settings = request.settings
    if request.is_limited or (settings.scheduler is None and not settings.workers):
        yield None
        return
    try:
        from distributed import Client  # noqa: PLC0415
    except ImportError as error:
        fix = "Fix: install gramhouse with its extra 'dask' (docs/scale.md)."
        raise SettingsError(f"Workers need a library that is not installed. {fix}") from error
    # Each has a level of its own.
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    tls = "Fix: start it, or correct GRAMHOUSE_SCHEDULER or DASK_DISTRIBUTED__COMM__TLS (docs/scale.md)."
    async with AsyncExitStack() as stack:
        target = settings.scheduler or await _start_workers(stack, settings)
        try:
            connecting = Client(target, asynchronous=True, set_as_default=False, timeout=_ANSWER)  # type: ignore[no-untyped-call]
            # One that cannot connect is closed as well.
            stack.push_async_exit(connecting)
            client = await connecting
            await client.wait_for_workers(1, timeout=NO_WORKERS)
        except (OSError, TimeoutError, TypeError, RuntimeError) as error:
            # Dask begins the reason with the object of its own that could not connect.
            reason = str(error.__cause__ or error).rpartition(">: ")[2]
            raise ClusterLost(f"the Dask scheduler {target} has no workers for this run ({reason}). {tls}") from error
        threads = sum((await client.nthreads()).values())
        yield Workers(client, threads, settings).scan_elsewhere


async def run_with_workers(request: RunRequest, steps: Steps = DIRECT, progress: Progress | None = None) -> RunReport:
    """Open the resources of a run, and workers if the settings want them; make the run, as `run_sync` does."""
    activity = f"gramhouse {request.options.kind}"
    async with open_resources(request.settings, activity, progress) as resources, open_workers(request) as workers:
        return await run_sync(request, replace(resources, scan_elsewhere=workers), steps)
