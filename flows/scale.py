"""Requests by Dask workers: they ask the API, and the run does all else as without them.

A task is some requests, and its result their answers. So the run knows each answer at once: it keeps the rate limits,
counts, lands and merges, and no clock of a worker is used.
"""

import asyncio
import hashlib
import logging
import pickle
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from connectors.source.messages import ApiRequest, Response
from flows.clock import ContinuedClock, SystemClock, new_id
from flows.config.environment import PREFIX
from flows.config.errors import ClusterLost, SettingsError
from flows.config.settings import Settings, load
from flows.engine.resources import make_client
from models import release
from models.runs import one_line

if TYPE_CHECKING:
    from connectors.source.client import ApiClient

# Seconds within which a scheduler must answer, and without any worker after which a run gives up.
_ANSWER = 10.0
NO_WORKERS = 60.0

# The settings that a worker has from the run. All else, such as the key, is that of its own environment.
_OF_THE_RUN = ("concurrency", "mapping")

Answer = Response | BaseException
"""What a request got: a page, or an ApiError."""

# The clients of this process, if it is a worker, by all that they depend on: connections outlive a task.
_clients: "dict[object, ApiClient]" = {}


def describe_terms(settings: Settings, salt: str) -> str:
    """Return what run and workers must have in common. The salt makes the fingerprint of the key useless elsewhere."""
    key = hashlib.blake2b(settings.key().get_secret_value().encode(), key=salt.encode(), digest_size=8).hexdigest()
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    what = f"gramhouse {release()}, Python {python}, the address {settings.address()}"
    return f"{what}, an API key with the fingerprint {key}"


def ask(
    terms: str, salt: str, of_run: Mapping[str, object], now: datetime, requests: Sequence[ApiRequest]
) -> list[Answer]:
    """Make requests at the same time on a worker, with the address and the key of its own environment.

    `of_run` are settings of the run, and `now` is its time. Raises SettingsError if the worker differs from the run.
    """
    from distributed import get_worker  # noqa: PLC0415 - a part of an extra

    worker = get_worker()
    try:
        own = load()
        has = describe_terms(own, salt)
    except SettingsError as error:
        raise SettingsError(f"the worker {worker.address}: {error}") from None
    if has != terms:
        fix = "start the workers with the installation and the settings of the run"
        raise SettingsError(f"the worker {worker.address} has {has}; the run has {terms}. Fix: {fix}.")
    settings = own.model_copy(update=of_run)

    async def send_all() -> list[Answer]:
        used = settings.address(), settings.key(), settings.page_paths(), settings.concurrency
        if used not in _clients:
            clock = ContinuedClock(SystemClock(), now)
            client = _clients[used] = await make_client(settings, clock).__aenter__()
            # The worker closes it at its end.
            closing = SimpleNamespace(close=partial(client.__aexit__, None, None, None))
            worker.extensions[f"gramhouse {len(_clients)}"] = closing
        return await asyncio.gather(*map(_clients[used].send, requests), return_exceptions=True)

    # In the event loop of the worker, which lasts as long as its connections.
    return asyncio.run_coroutine_threadsafe(send_all(), worker.loop.asyncio_loop).result()  # type: ignore[attr-defined]


class _Call:
    """A call of `ask`, made where it is unpickled.

    A worker that cannot import a submitted function ends without an error. Every worker can import `pickle.loads`.
    """

    def __init__(self, *arguments: object) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[object, ...]:
        return ask, self._arguments


class Workers:
    """Sends requests to workers: to each of their threads as many at once as the settings allow."""

    def __init__(self, client: Any, threads: int, settings: Settings) -> None:  # noqa: ANN401 - distributed has no types
        """Use a connected client, whose workers have some threads."""
        self._client = client
        self._threads = threads
        # One task of each thread runs, and one is next.
        self.tasks = 2 * threads
        self._most = settings.concurrency
        self._salt = new_id()
        self._terms = describe_terms(settings, self._salt)
        self._of_run = {name: getattr(settings, name) for name in _OF_THE_RUN}
        self._waiting: asyncio.Queue[tuple[ApiRequest, asyncio.Future[Response]]] = asyncio.Queue()

    async def send(self, request: ApiRequest) -> Response:
        """Make a request as `ApiClient.send` does. Raises also ClusterLost, and SettingsError of a worker."""
        answered: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((request, answered))
        return await answered

    async def serve(self) -> None:
        """Submit one task of waiting requests after another, until this is cancelled."""
        while True:
            some = [await self._waiting.get()]
            share = -(-self._waiting.qsize() // self._threads)
            some += [self._waiting.get_nowait() for _ in range(min(share, self._most - 1))]
            # That of a scan that was cancelled is done.
            some = [(request, answered) for request, answered in some if not answered.done()]
            try:
                answers = await self._submit([request for request, _ in some]) if some else []
            except Exception as error:  # noqa: BLE001 - each scan raises it
                answers = [error] * len(some)
            for (_, answered), answer in zip(some, answers, strict=True):
                if answered.done():
                    continue
                if isinstance(answer, BaseException):
                    answered.set_exception(answer)
                else:
                    answered.set_result(answer)

    async def _submit(self, requests: Sequence[ApiRequest]) -> Sequence[Answer]:
        call = pickle.dumps(_Call(self._terms, self._salt, self._of_run, SystemClock().now(), requests))
        future = self._client.submit(pickle.loads, call, pure=False)
        result = asyncio.ensure_future(future.result())
        try:
            while not (await asyncio.wait((result,), timeout=NO_WORKERS))[0]:
                await self._client.wait_for_workers(1, timeout=NO_WORKERS)
            return await result  # type: ignore[no-any-return]
        except SettingsError:
            raise
        except Exception as error:
            why = one_line(f"{type(error).__name__}: {error}")
            raise ClusterLost(
                f"a Dask worker, or the scheduler, failed ({why}). Saved pages are kept. Fix: start them, with"
                f" gramhouse {release()} on all, and run the same command to resume; if it fails again, run it without"
                " workers."
            ) from error
        finally:
            result.cancel()
            # Otherwise its bytes stay on the worker, and are computed again if that dies.
            future.release()


async def _start_workers(stack: AsyncExitStack, settings: Settings) -> Any:  # noqa: ANN401
    from dask import config  # noqa: PLC0415
    from distributed import LocalCluster  # noqa: PLC0415

    environment = {
        # They may have come from the command line, or from Prefect.
        f"{PREFIX}BASE_URL": settings.address(),
        f"{PREFIX}API_KEY": settings.key().get_secret_value(),
    }
    # What workers have from this process.
    dask_settings = {
        # Pages that Dask would show without credentials.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        # The statistical profiler takes 2 % of the time of a worker.
        "distributed.worker.profile.enabled": False,
    }
    # They ignore Ctrl-C, which a terminal sends to them, too.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with config.set(dask_settings):
            cluster = LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=settings.workers,
                threads_per_worker=1,
                env=environment,
                asynchronous=True,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
                # Temporary credentials: no other user of this machine can reach the workers, which have the API key.
                security=True,
                # A worker that hangs is replaced after this time. The port is that of the pages: any free one.
                scheduler_kwargs={"worker_ttl": "60 s", "dashboard_address": "127.0.0.1:0"},
            )
            return await stack.enter_async_context(cluster)
    finally:
        signal.signal(signal.SIGINT, before)


@asynccontextmanager
async def open_workers(settings: Settings) -> AsyncIterator[Workers]:
    """Connect to the scheduler of the settings, or start workers here. Raises SettingsError and ClusterLost."""
    try:
        from distributed import Client  # noqa: PLC0415
    except ImportError as error:
        fix = "Fix: install gramhouse with its extra 'dask' (docs/scale.md)."
        raise SettingsError(f"Workers need a library that is not installed. {fix}") from error
    # Each has a level of its own.
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    place = f"The Dask scheduler {settings.scheduler}"
    fix = "start it, or correct GRAMHOUSE_SCHEDULER or DASK_DISTRIBUTED__COMM__TLS (docs/scale.md)"
    if settings.scheduler is None:
        place, fix = "This machine", "lower GRAMHOUSE_WORKERS"
    async with AsyncExitStack() as stack:
        try:
            target = settings.scheduler or await _start_workers(stack, settings)
            connecting = Client(target, asynchronous=True, set_as_default=False, timeout=_ANSWER)  # type: ignore[no-untyped-call]
            # One that cannot connect is closed as well.
            stack.push_async_exit(connecting)
            client = await connecting
            await client.wait_for_workers(1, timeout=NO_WORKERS)
        except (OSError, TimeoutError, TypeError, RuntimeError) as error:
            # Dask begins the reason with the object of its own that could not connect.
            reason = str(error.__cause__ or error).rpartition(">: ")[2]
            raise ClusterLost(f"{place} has no workers for this run ({reason}). Fix: {fix}.") from error
        workers = Workers(client, sum((await client.nthreads()).values()), settings)
        serving = [asyncio.create_task(workers.serve()) for _ in range(workers.tasks)]
        try:
            yield workers
        finally:
            for each in serving:
                each.cancel()
