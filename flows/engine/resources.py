"""Creates a run's resources from the settings: the client, the warehouse under the writer lock, the clock."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from connectors.buckets.address import open_snapshot_bucket
from connectors.source.request_rate import AT_FIRST, RequestRate
from connectors.state.database import SqlConnection
from connectors.state.identity import newest_time
from connectors.state.operations import read_operations
from connectors.state.runs import delete_failed_starts
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseUnusable
from connectors.warehouse.storage.holder import hold
from connectors.warehouse.storage.paths import real
from flows.clock import SteadyClock, SystemClock, new_id
from flows.config.errors import SettingsError
from flows.config.setting_sources import PREFIX, origin
from flows.config.settings import Settings
from flows.engine.files import check_exists
from flows.engine.warehouse import Warehouse, open_warehouse
from flows.reporting.progress import Progress, notices
from flows.reporting.words import span
from models.clock import CLOCK_STEP, Clock
from models.erasure import ACTIVITY, OPERATION, UNFINISHED

if TYPE_CHECKING:
    from flows.engine.run import RunResources

T = TypeVar("T")

_LOOK_EVERY = 1.0


def unwritable_folders(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the setting of each file or folder that cannot be written, and a message with the fix.

    A folder that does not exist is created when it is written, so its first ancestor that exists must be writable.
    """
    for name, noun, place in (
        ("warehouse", "warehouse", settings.warehouse),
        ("snapshot", "snapshot", settings.snapshot_file()),
        ("raw", "raw store", settings.raw_folder()),
    ):
        path = real(place)
        wanted = path if name == "raw" else path.parent
        folder = next(there for there in (wanted, *wanted.parents) if os.path.exists(there))  # noqa: PTH110 - no errors
        if path.is_symlink():
            why = "it is a symbolic link to itself"
        elif not folder.is_dir():
            why = f"{folder} is not a folder"
        elif not os.access(folder, os.W_OK | os.X_OK):
            why = f"{folder} is not writable"
        else:
            continue
        fix = f"set {PREFIX}{name.upper()} to a path in a writable folder"
        yield name, f"cannot write the {noun} {place}: {why}. Fix: {fix}."


def check_places(settings: Settings) -> None:
    """Check that the snapshot and the report would replace neither the warehouse nor a file that is not ours.

    Raises SettingsError, and WarehouseUnusable if the report cannot be written.
    """
    snapshot, warehouse = settings.snapshot_file(), settings.warehouse
    if real(snapshot) == real(warehouse):
        raise SettingsError(f"{snapshot} is the warehouse itself. Fix: set GRAMHOUSE_SNAPSHOT to another path.")
    # Imported here, because it imports DuckDB.
    from connectors.warehouse.publish.replaceable import check_file  # noqa: PLC0415

    try:
        check_file(snapshot)
    except WarehouseUnusable as error:
        raise SettingsError(str(error)) from None
    if settings.report is None:
        return
    # Imported here because most runs do not write a report.
    from flows.reporting.page.write import check_place  # noqa: PLC0415

    try:
        check_place(settings.report, snapshot, warehouse)
    except SettingsError as error:
        raise SettingsError(f"{origin('report')}: {error}") from None


def check_writable(settings: Settings) -> None:
    """Check before the scan, not after hours of it, that its results can be written.

    Raises SettingsError and WarehouseUnusable.
    """
    check_places(settings)
    for _, message in unwritable_folders(settings):
        raise WarehouseUnusable(message)


async def _patiently(settings: Settings, clock: Clock, attempt: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `attempt`, which is repeated for `settings.busy_wait` seconds while it raises WarehouseBusy.

    One line reports the wait and names the holder.
    """
    until, waits = clock.monotonic() + settings.busy_wait, False
    while True:
        try:
            result = await attempt()
        except WarehouseBusy as busy:
            if (left := until - clock.monotonic()) <= 0:
                raise
            if not waits:
                notices.warning(f"{str(busy).split('. ')[0]}. Waiting up to {span(settings.busy_wait)} for the lock.")
            waits = True
            await clock.sleep(min(_LOOK_EVERY, left))
        else:
            if waits:
                notices.warning("The warehouse is free; continuing.")
            return result


@asynccontextmanager
async def writing(settings: Settings, activity: str, *, clock: Clock | None = None) -> AsyncIterator[Warehouse]:
    """Open the warehouse for writing; wait up to `settings.busy_wait` seconds for another writer.

    Raises WarehouseBusy after this time, and WarehouseUnusable.
    """
    clock, mapping = clock or SystemClock(), settings.media_mapping()
    async with AsyncExitStack() as stack:

        def opened() -> Awaitable[Warehouse]:
            opening = open_warehouse(
                settings.warehouse,
                activity,
                now=clock.now(),
                raw=settings.raw,
                mapping=mapping,
                paths=settings.page_paths(),
            )
            return stack.enter_async_context(opening)

        warehouse = await _patiently(settings, clock, opened)
        if activity != ACTIVITY:
            await warehouse.read_state(say_unfinished)
        yield warehouse


def say_unfinished(state: SqlConnection) -> None:
    """Warn if an erasure was interrupted: every command that writes says so."""
    if OPERATION in read_operations(state):
        notices.warning(UNFINISHED)


async def wait_for_turn(settings: Settings, activity: str, *, clock: Clock | None = None) -> None:
    """Wait up to `settings.busy_wait` seconds until no other process holds the warehouse, for what locks it by itself.

    Raises WarehouseBusy after this time, and WarehouseUnusable also if there is no warehouse.
    """
    check_exists(settings.warehouse)
    clock = clock or SystemClock()

    async def held() -> None:
        with hold(settings.warehouse, activity, since=clock.now().isoformat(timespec="seconds"), pause=time.sleep):
            pass

    await _patiently(settings, clock, held)


def check_clock(state: SqlConnection, *, now: datetime) -> datetime | None:
    """Return the newest stored time, if any. Raises WarehouseUnusable if the clock is behind it."""
    newest = newest_time(state)
    if newest is not None and newest - now > CLOCK_STEP:
        raise WarehouseUnusable(
            f"This machine's clock is behind: it shows {now:%Y-%m-%d %H:%M:%S} UTC, but the last run ended, or received"
            f" a page, at {newest:%Y-%m-%d %H:%M:%S} UTC. Nothing was requested or changed. Fix: set this machine's"
            " clock; if it is correct, run `gramhouse doctor --repair`."
        )
    return newest


async def steady_clock(warehouse: Warehouse, clock: Clock) -> SteadyClock:
    """Return a clock that continues after the times that were stored.

    Raises WarehouseUnusable if the clock is behind.
    """
    now = clock.now()
    newest = await warehouse.read_state(check_clock, now=now)
    return SteadyClock(clock, now if newest is None or newest < now else newest + timedelta(microseconds=1))


@asynccontextmanager
async def open_resources(
    settings: Settings, activity: str, progress: Progress | None = None
) -> AsyncIterator["RunResources"]:
    """Open the resources of a run; they are closed when the block ends.

    Raises SettingsError, WarehouseBusy, WarehouseUnusable and BucketError, before the first request
    to the API.
    """
    # Not for commands that scan nothing.
    from flows.engine.run import RunResources  # noqa: PLC0415

    clock = SystemClock()
    check_writable(settings)
    address, key, network = settings.address(), settings.key(), settings.network()
    # On another thread, because importing httpx and aiohttp takes about as long as opening the warehouse.
    importing = asyncio.get_running_loop().run_in_executor(None, import_module, "connectors.source.client")
    bucket = None
    if (url := settings.snapshot_url()) is not None:
        bucket = open_snapshot_bucket(url)
        await bucket.check()
    async with writing(settings, activity, clock=clock) as warehouse:
        await warehouse.write_state(delete_failed_starts)
        client = (await importing).ApiClient(
            address,
            key,
            clock=clock,
            concurrency=settings.concurrency,
            network=network,
            paths=settings.page_paths(),
        )
        async with client:
            yield RunResources(
                bucket=bucket,
                send=client.send,
                warehouse=warehouse,
                clock=clock,
                random=random.SystemRandom().random,
                new_id=new_id,
                rate=RequestRate(settings.requests_per_second, AT_FIRST),
                progress=progress or Progress(),
            )
