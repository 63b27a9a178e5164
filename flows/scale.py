"""Scans on Dask workers: they fetch pages in bounded pieces, and the run lands what they return.

`open_workers` gives a run its `scan_account`; everything else is the same with workers and without. Only the run lands
and merges, because one process may write the warehouse.
"""

import asyncio
import logging
import pickle
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from connectors.source.errors import client_error
from flows.clock import new_id
from flows.config.errors import ClusterLost, SettingsError
from flows.config.setting_sources import PREFIX
from flows.config.settings import Settings
from flows.engine.piece import Piece, Scanned, Share, describe_terms, run_piece
from flows.engine.requests import StopRun
from flows.engine.run import Run, ScanAccount
from flows.engine.run_request import RunRequest
from flows.engine.scan import AccountScan, Scan, Start, begin_scan, failed_outcome
from models.page_commit import PageCommit
from models.release import release

if TYPE_CHECKING:
    from connectors.source.request_rate import RequestRate

# Accounts of a piece for each of its requests in flight, so that one with short scans lasts.
_ACCOUNTS_PER_REQUEST = 8

# Seconds within which a scheduler must answer, and without any worker after which a run gives up.
_ANSWER = 10.0
NO_WORKERS = 60.0

_RESUME = "Saved pages are kept. Fix: start the scheduler and its workers, and run the same command to resume."


class _Call:
    """A call of `run_piece`, made where it is unpickled.

    A worker that cannot import a submitted function ends without an error. Every worker can import `pickle.loads`.
    """

    def __init__(self, *arguments: object) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[object, ...]:
        return run_piece, self._arguments


class WorkerLost(Exception):  # noqa: N818 - the run goes on
    """A piece could not be scanned: it ended its workers several times, or the worker failed."""


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
        self._waiting: list[tuple[AccountScan, asyncio.Future[Share]]] = []

    async def scan_account(self, run: Run, account: AccountScan, done: Counter[str]) -> None:
        """Scan what is left of an account in as many pieces as it takes; see `flows.engine.accounts.scan_account`.

        Raises StopRun, ClusterLost, and SettingsError of a worker.
        """
        failed, is_alone = list[Start | Scan](), False
        while account.left:
            try:
                share = await (self._scan_alone(run, account) if is_alone else self._scan_with_others(run, account))
            except WorkerLost as lost:
                if is_alone:
                    await _give_up(run, account, done, str(lost))
                # Others of the piece may be the cause.
                is_alone = True
                continue
            for commit in share.commits:
                await run.land(commit)
                if (cooldown := commit.cooldown) is not None:
                    run.progress.cooldowns[cooldown.scope] = cooldown.resume_after
                for outcome in commit.outcomes:
                    done.update({outcome.kind: 1, "pages": outcome.pages})
            if share.stopped_by is not None:
                raise StopRun(share.stopped_by)
            failed += share.failed
            account = share.account
            if share.seconds:
                began = run.clock.monotonic()
                await run.requests.sleep(share.seconds)
                account.budget.waited += run.clock.monotonic() - began
        if failed:
            run.to_repeat.append(AccountScan(account.budget, failed))
        else:
            run.progress.accounts_done += 1

    async def _scan_alone(self, run: Run, account: AccountScan) -> Share:
        async with self._pieces:
            [share] = await self._scan_piece(run, [account])
        return share

    async def _scan_with_others(self, run: Run, account: AccountScan) -> Share:
        """Wait until a piece has scanned the account; each account that waits sends one piece of those that wait."""
        share: asyncio.Future[Share] = asyncio.get_running_loop().create_future()
        self._waiting.append((account, share))
        # After others that come at the same time.
        await asyncio.sleep(0)
        async with self._pieces:
            most = min(self._most_accounts, -(-len(self._waiting) // self._threads))
            taken, self._waiting = self._waiting[:most], self._waiting[most:]
            try:
                shares = await self._scan_piece(run, [each for each, _ in taken]) if taken else []
                for (_, waiting), found in zip(taken, shares, strict=True):
                    waiting.set_result(found)
            except Exception as error:  # noqa: BLE001 - all of them raise it
                for _, waiting in taken:
                    waiting.set_exception(error)
                    # Of some that are cancelled meanwhile, nobody retrieves it.
                    waiting.exception()
        return await share

    async def _scan_piece(self, run: Run, accounts: list[AccountScan]) -> list[Share]:
        settings = run.request.settings.model_copy(update={"api_key": None, "api_key_file": None})
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
        self._rate = scanned.rate
        for name in ("pages", "items", "requests", "retries", "restarted", "refused"):
            setattr(run.progress, name, getattr(run.progress, name) + getattr(scanned.progress, name))
        return scanned.shares

    async def _result(self, future: Any) -> bytes:  # noqa: ANN401
        from distributed import KilledWorker  # noqa: PLC0415
        from distributed.client import FutureCancelledError  # noqa: PLC0415

        try:
            return await self._wait(future)
        except (ImportError, AttributeError) as error:
            # Of a worker that has no `run_piece`: it does not name itself.
            what = f"a worker cannot scan for gramhouse {release()} ({error})"
            raise SettingsError(f"{what}. Fix: install it on all workers.") from error
        except (FutureCancelledError, OSError) as error:
            raise ClusterLost(f"the connection to the Dask scheduler was lost. {_RESUME}") from error
        except (SettingsError, ClusterLost):
            raise
        except KilledWorker as error:
            raise WorkerLost("it ended several workers") from error
        except Exception as error:
            raise WorkerLost(f"of an error of a worker: {error!r}") from error

    async def _wait(self, future: Any) -> bytes:  # noqa: ANN401
        waiting = asyncio.ensure_future(future.result())
        try:
            while not waiting.done():
                await asyncio.wait((waiting,), timeout=NO_WORKERS)
                if not waiting.done() and not await self._client.nthreads():
                    raise ClusterLost(f"no Dask worker was available for {NO_WORKERS:.0f} s. {_RESUME}")
            return await waiting  # type: ignore[no-any-return]
        finally:
            waiting.cancel()


async def _give_up(run: Run, account: AccountScan, done: Counter[str], why: str) -> None:
    """Land an outcome of what is left of an account that no worker can scan."""
    while account.left:
        each = account.left.pop(0)
        scan = begin_scan(run.scanning, each) if isinstance(each, Start) else each
        outcome = failed_outcome(run.scanning, scan, client_error(scan.operation, "worker_lost", f"no result: {why}"))
        await run.land(PageCommit(outcomes=(outcome,)))
        done[outcome.kind] += 1


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """Let processes that are started in the block ignore Ctrl-C, which a terminal sends to them, too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
    try:
        with _ignore_interrupts():
            return await stack.enter_async_context(cluster)
    except (OSError, RuntimeError, TimeoutError) as error:
        raise ClusterLost(f"workers on this machine do not start ({error}). Fix: lower GRAMHOUSE_WORKERS.") from error


@asynccontextmanager
async def open_workers(request: RunRequest) -> AsyncIterator[ScanAccount | None]:
    """Connect to the scheduler of the settings, or start workers here; yield what scans an account there.

    None if the settings want neither, and if the number of requests is limited: only this process can count them.
    Raises SettingsError and ClusterLost.
    """
    settings = request.settings
    if request.max_requests is not None or (settings.scheduler is None and not settings.workers):
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
        yield Workers(client, threads, settings).scan_account
