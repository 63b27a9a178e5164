"""The workers of a Dask cluster: those of an existing scheduler, or processes started on this machine."""

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

from flows.cluster.worker import sync_batch
from flows.config.errors import SettingsError
from flows.config.setting_sources import PREFIX
from flows.config.settings import Settings, set_by

# Seconds without any worker after which a run gives up.
NO_WORKERS = 120.0

# Seconds to wait for the scheduler's answer.
_ANSWER = 10.0


class DaskAttempt:
    """A submitted attempt at a batch, as a Dask task."""

    def __init__(self, future: Any) -> None:  # noqa: ANN401 - distributed has no types
        self._future = future

    async def ended(self) -> BaseException | None:
        """Wait until the task has ended; return its error. None: the whole batch is in its log."""
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        self._future.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
        await ended.wait()
        if self._future.status == "finished":
            return None
        if self._future.status == "error":
            return await self._future.exception()  # type: ignore[no-any-return]
        return ConnectionError("the connection to the Dask scheduler was lost")

    def release(self) -> None:
        """Release the task: otherwise Dask would compute a finished batch again if its worker died later."""
        self._future.release()


class DaskWorkers:
    """The workers of a Dask client; each scans a batch with `flows.cluster.worker.scan_stored`."""

    def __init__(self, client: Any, store_url: str) -> None:  # noqa: ANN401
        self._client = client
        self._store_url = store_url

    async def submit(self, prefix: str, *, key: str) -> DaskAttempt:
        """Submit the batch at `prefix` of the store; `key` is unique to this attempt."""
        return DaskAttempt(self._client.submit(sync_batch, self._store_url, prefix, key=key, pure=False))

    async def are_there(self) -> bool:
        """Return whether the scheduler has workers. May raise OSError."""
        return self._client.status not in ("closing", "closed") and bool(await self._client.nthreads())


def _check(settings: Settings) -> None:
    """Check the settings of the scheduler and the store. Raises SettingsError."""
    scheduler = settings.scheduler
    if scheduler is not None:
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
        if settings.store is None:
            message = (
                "GRAMHOUSE_STORE is not set, and workers of a scheduler need it. Fix: name a bucket, such as"
                " s3://bucket/gramhouse, or a folder that all machines share."
            )
            raise SettingsError(message)


async def count_workers(settings: Settings) -> int | None:
    """Return the number of the scheduler's workers, or None if no scheduler is set. Raises SettingsError."""
    _check(settings)
    if settings.scheduler is None:
        return None
    async with _connect(settings) as client:
        return len(await client.nthreads())


@asynccontextmanager
async def dask_workers(settings: Settings) -> AsyncIterator[DaskWorkers]:
    """Connect to the scheduler of the settings, or start workers on this machine. Raises SettingsError."""
    _check(settings)
    async with _connect(settings) as client:
        yield DaskWorkers(client, settings.store_url())


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
async def _connect(settings: Settings) -> AsyncIterator[Any]:
    scheduler = settings.scheduler
    try:
        from distributed import Client, LocalCluster  # noqa: PLC0415 - a part of an extra
    except ImportError as error:
        message = "GRAMHOUSE_ENGINE=dask needs a library that is not installed. Fix: pip install 'gramhouse[dask]'."
        raise SettingsError(message) from error
    for name in ("distributed", "tornado"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    async with AsyncExitStack() as stack:
        if scheduler is None:
            cluster = LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=settings.workers,
                # It may have come from the command line.
                env={f"{PREFIX}BASE_URL": settings.address()},
                threads_per_worker=1,
                asynchronous=True,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
            with _without_interrupts():
                target: Any = await stack.enter_async_context(cluster)
        else:
            target = scheduler
        try:
            if scheduler is not None:
                # A short timeout to report a wrong address early; later the scheduler has time to come back.
                trying = Client(target, asynchronous=True, set_as_default=False, timeout=_ANSWER)  # type: ignore[no-untyped-call]
                async with trying:
                    pass
            connecting = Client(target, asynchronous=True, set_as_default=False, timeout=NO_WORKERS)  # type: ignore[no-untyped-call]
            client = await stack.enter_async_context(connecting)
        except (OSError, TimeoutError) as error:
            message = f"the Dask scheduler {scheduler} does not answer. Fix: start it, or correct GRAMHOUSE_SCHEDULER."
            raise SettingsError(message) from error
        yield client
