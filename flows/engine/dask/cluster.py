"""The connection to a Dask cluster: that of a scheduler, or workers on this machine."""

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from flows.config.errors import ClusterLost, SettingsError
from flows.config.setting_sources import PREFIX
from flows.config.settings import Settings

# Seconds within which a scheduler must answer.
ANSWER = 10.0


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C in this process and in those started in the block, to which a terminal sends it, too.

    Does nothing outside the main thread.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
    try:
        yield
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)


def _report_unless(ignored: type[BaseException], loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report an error that no task awaits, except one with which Dask ends its own tasks when a result is given up."""
    if not isinstance(context.get("exception"), ignored):
        loop.default_exception_handler(context)


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Any]:
    """Connect to the scheduler of the settings, or to new workers here. Raises SettingsError and ClusterLost."""
    try:
        from distributed import Client, LocalCluster  # noqa: PLC0415 - a part of an extra
        from distributed.client import AllExit  # noqa: PLC0415
    except ImportError as error:
        what = "GRAMHOUSE_ENGINE=dask needs a library that is not installed"
        raise SettingsError(f"{what}. Fix: install gramhouse with its extra 'dask' (docs/scale.md).") from error
    # Each has a level of its own.
    for name in ("distributed", "distributed.client", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    asyncio.get_running_loop().set_exception_handler(partial(_report_unless, AllExit))
    async with AsyncExitStack() as stack:
        target: Any = settings.scheduler
        if target is None:
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
                # A worker that hangs is replaced after this time.
                scheduler_kwargs={"worker_ttl": "60 s"},
            )
            try:
                with _ignoring_interrupts():
                    target = await stack.enter_async_context(cluster)
            except (OSError, RuntimeError, TimeoutError) as error:
                raise ClusterLost(
                    f"workers on this machine do not start ({error}). Fix: lower GRAMHOUSE_WORKERS."
                ) from error
        try:
            connecting = Client(target, asynchronous=True, set_as_default=False, timeout=ANSWER)  # type: ignore[no-untyped-call]
            # One that cannot connect is closed as well.
            stack.push_async_exit(connecting)
            client = await connecting
        except (TypeError, RuntimeError) as error:
            # What Dask raises if an address and its own settings for TLS do not agree.
            raise SettingsError(
                f"the Dask scheduler {target} cannot be reached: {error}. Fix: set the certificates of"
                " DASK_DISTRIBUTED__COMM__TLS (docs/scale.md)."
            ) from error
        except (OSError, TimeoutError) as error:
            # Dask begins the reason with the object of its own that could not connect.
            reason = str(error.__cause__ or error).rpartition(">: ")[2]
            raise ClusterLost(
                f"the Dask scheduler {target} does not answer ({reason}). Fix: start it, or correct GRAMHOUSE_SCHEDULER"
                " or the certificates of DASK_DISTRIBUTED__COMM__TLS (docs/scale.md)."
            ) from error
        yield client


async def count_workers(settings: Settings) -> int:
    """Return the number of the scheduler's workers. Raises SettingsError and ClusterLost."""
    async with connected(settings) as client:
        return len(await client.nthreads())
