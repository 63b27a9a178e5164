"""Checks what a command is about to write, and opens the resources of a run: the warehouse, the clock, the client."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.buckets import SnapshotBucket
from connectors.source.waits import Send
from connectors.state.database import SqlConnection
from connectors.state.identity import newest_time
from connectors.warehouse.storage.files import real
from flows.clock import SteadyClock, SystemClock, new_id
from flows.config.environment import PREFIX
from flows.config.errors import SettingsError
from flows.config.settings import Settings
from flows.engine.warehouse import Files, Warehouse, open_warehouse
from flows.reporting.progress import Progress
from models.clock import CLOCK_STEP, Clock
from models.files import WarehouseUnusable

if TYPE_CHECKING:
    from connectors.source.client import ApiClient


@dataclass(frozen=True, slots=True)
class RunResources:
    """The resources of a run, including time, randomness and ids.

    `progress` is where a run counts what it does, for those who show it.
    """

    send: Send
    warehouse: Warehouse
    clock: Clock
    random: Callable[[], float]
    new_id: Callable[[], str]
    progress: Progress = field(default_factory=Progress)


def check_writable(settings: Settings) -> None:
    """Check before the scan, not after hours of it, that its results can be written, and replace no file of others.

    Raises SettingsError if the snapshot or the report would, and WarehouseUnusable if a folder cannot be written. A
    folder that does not exist is created later, so its first ancestor that exists must be writable.
    """
    # Imported here, because they import DuckDB, and most runs do not write a report.
    from connectors.warehouse.publish.replaceable import check_file  # noqa: PLC0415

    snapshot, warehouse = settings.snapshot_file(), settings.warehouse
    if real(snapshot) == real(warehouse):
        raise SettingsError(f"{snapshot} is the warehouse itself. Fix: set GRAMHOUSE_SNAPSHOT to another path.")
    try:
        check_file(snapshot)
    except WarehouseUnusable as error:
        raise SettingsError(str(error)) from None
    if settings.report is not None:
        from flows.reporting.page import check_place  # noqa: PLC0415

        check_place(settings.report)
    for name, folder in find_folders(settings).items():
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            why = "not writable" if folder.is_dir() else "not a folder"
            fix = f"set {PREFIX}{name.upper()} to a path in a writable folder"
            raise WarehouseUnusable(f"cannot write the {name}: {folder} is {why}. Fix: {fix}.")


def find_folders(settings: Settings) -> Mapping[str, Path]:
    """Return the folders of warehouse, snapshot and raw store; of one that does not exist, the first that it is in."""
    wanted = {
        "warehouse": real(settings.warehouse).parent,
        "snapshot": real(settings.snapshot_file()).parent,
        "raw": real(settings.raw_folder()),
    }
    return {
        name: next(there for there in (folder, *folder.parents) if os.path.exists(there))  # noqa: PTH110 - no errors
        for name, folder in wanted.items()
    }


def explain_lone_snapshot(settings: Settings) -> str | None:
    """Return why a run must not begin if there is a snapshot without its warehouse, whose disk may not be mounted."""
    snapshot = settings.snapshot_file()
    if settings.warehouse.exists() or settings.snapshot_url() is not None or not snapshot.exists():
        return None
    # Imported here, because it imports DuckDB.
    from connectors.warehouse.publish.replaceable import another_warehouse  # noqa: PLC0415

    return f"{settings.warehouse} does not exist yet, so {another_warehouse(str(snapshot))}"


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


def steady_clock(files: Files, clock: Clock) -> SteadyClock:
    """Return a clock that continues after the times that were stored. Raises WarehouseUnusable if it is behind them."""
    now = clock.now()
    newest = files.state.read(check_clock, now=now)
    return SteadyClock(clock, now if newest is None else newest + timedelta(microseconds=1))


def make_client(settings: Settings, clock: Clock) -> "ApiClient":
    """Return a client of the service. Raises SettingsError."""
    # Imported here, because most commands send nothing.
    from connectors.source.client import ApiClient  # noqa: PLC0415

    return ApiClient(
        settings.address(),
        settings.key(),
        clock=clock,
        concurrency=settings.concurrency,
        network=settings.network(),
        paths=settings.page_paths(),
    )


@asynccontextmanager
async def open_resources(
    settings: Settings, activity: str, progress: Progress | None = None
) -> AsyncIterator[RunResources]:
    """Open the resources of a run; they are closed when the block ends.

    Raises SettingsError, WarehouseBusy, WarehouseUnusable and BucketError, before the first request to the API.
    """
    clock = SystemClock()
    check_writable(settings)
    if (why := explain_lone_snapshot(settings)) is not None:
        raise WarehouseUnusable(why)
    settings.address(), settings.key(), settings.network()
    # On another thread, because importing aiohttp takes about as long as opening the warehouse.
    importing = asyncio.get_running_loop().run_in_executor(None, import_module, "connectors.source.client")
    if (url := settings.snapshot_url()) is not None:
        await SnapshotBucket(url).check()
    async with open_warehouse(settings, activity, clock) as warehouse:
        await importing
        async with make_client(settings, clock) as client:
            yield RunResources(
                send=client.send,
                warehouse=warehouse,
                clock=clock,
                random=random.SystemRandom().random,
                new_id=new_id,
                progress=progress or Progress(),
            )
