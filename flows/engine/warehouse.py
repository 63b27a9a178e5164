"""The single writer: lands everything that has arrived in one transaction of the state, and merges concurrently."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, closing
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

from connectors.state.database import SqlConnection
from connectors.state.inbox import land
from connectors.warehouse.storage.connection import Database, explained, transaction
from connectors.warehouse.storage.errors import WarehouseBusy
from flows.config.settings import Settings
from flows.engine.files import Files, open_files
from flows.reporting.progress import notices
from flows.reporting.words import span
from models.checkpoint import BATCH_BYTES, Landing, ScopeCooldown
from models.files import Clock

P = ParamSpec("P")
T = TypeVar("T")

_OnState: TypeAlias = Callable[Concatenate[SqlConnection, P], T]
_OnWarehouse: TypeAlias = Callable[Concatenate[Database, P], T]

# The size of DuckDB's WAL, in bytes, that triggers a checkpoint: until then DuckDB keeps its contents in memory too.
_LOG_BYTES = 96 * 1024 * 1024

# Seconds between two attempts to open files that another process holds.
_LOOK_EVERY = 1.0


class Warehouse:
    """The warehouse with its state, open for writing by two threads: one lands pages, the other merges them meanwhile.

    All other operations run on the landing thread, in the order of the calls. Every method raises WarehouseUnusable
    when the disk or DuckDB fails; committed data is kept.
    """

    def __init__(self, files: Files, landing: Executor, merging: Executor, sibling: Database) -> None:
        """Use open files on a thread that lands, and a `sibling` of their connection on one that merges."""
        self.files = files
        self._landing = landing
        self._merging = merging
        self._sibling = sibling
        # What the next transaction lands; it begins when the one before has ended.
        self._arrived: list[Landing | ScopeCooldown] = []
        self._next_landing: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        # The running merge or the last one, and the bytes that landed since it began.
        self._last_merge: asyncio.Task[None] | None = None
        self._unmerged = 0

    async def _do(self, thread: Executor, work: Callable[[], T]) -> T:
        """Run `work` on a thread. Raises WarehouseUnusable when DuckDB or SQLite fails, and what `work` raises.

        If the caller is cancelled, submitted work still runs to its end.
        """

        def run() -> T:
            with explained(self.files.path):
                return work()

        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(thread, run))

    async def land(self, arrived: Landing | ScopeCooldown) -> None:
        """Return when what arrived is durable. All that arrives during a transaction shares the next one."""
        self._arrived.append(arrived)
        if self._next_landing is None:
            self._next_landing = asyncio.create_task(self._land_arrived())
        # A caller that is cancelled does not cancel the landing of others.
        await asyncio.shield(self._next_landing)

    async def _land_arrived(self) -> None:
        async with self._one_at_a_time:
            arrived, self._arrived, self._next_landing = self._arrived, [], None
            if not self._is_merging or self._unmerged >= BATCH_BYTES:
                # If a full batch has landed during the merge, so that a slow disk slows down the scans.
                await self._wait_for_merge()
            await self._do(self._landing, lambda: self.files.state.write(land, arrived))
            self._unmerged += sum(one.size for one in arrived if isinstance(one, Landing))
            if self._unmerged >= BATCH_BYTES and not self._is_merging:
                self._last_merge = asyncio.create_task(self._merge_landed())

    @property
    def _is_merging(self) -> bool:
        return self._last_merge is not None and not self._last_merge.done()

    async def _merge_landed(self) -> None:
        self._unmerged = 0
        await self._do(self._merging, lambda: self.files.merge(self._sibling))
        log = self.files.path.with_name(f"{self.files.path.name}.wal")
        if log.exists() and log.stat().st_size >= _LOG_BYTES:
            # On the landing thread and between two merges: DuckDB checkpoints only without concurrent writes.
            await self._do(self._landing, lambda: self.files.db.execute("CHECKPOINT"))

    async def _wait_for_merge(self) -> None:
        """Wait for the running merge, if any. Raises the exception of the last one."""
        if self._last_merge is not None:
            # A caller that is cancelled does not cancel the merge.
            await asyncio.shield(self._last_merge)

    async def merge(self) -> None:
        """Merge everything that has landed."""
        await self._wait_for_merge()
        self._last_merge = asyncio.create_task(self._merge_landed())
        await self._wait_for_merge()

    async def read(self, work: _OnWarehouse[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(db, ...)` on merged data in its own transaction, without waiting for the running merge."""

        def run() -> T:
            with transaction(self.files.db):
                return work(self.files.db, *args, **kwargs)

        return await self._do(self._landing, run)

    async def write(self, work: _OnWarehouse[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(db, ...)` on merged data in its own transaction, while no merge runs."""
        await self._wait_for_merge()
        return await self.read(work, *args, **kwargs)

    async def alone(self, work: _OnWarehouse[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(db, ...)`, which begins its own transactions, while no merge runs."""
        await self._wait_for_merge()
        return await self._do(self._landing, lambda: work(self.files.db, *args, **kwargs))

    async def read_state(self, work: _OnState[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(connection, ...)` in a transaction that reads the state."""
        return await self._do(self._landing, lambda: self.files.state.read(work, *args, **kwargs))

    async def write_state(self, work: _OnState[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(connection, ...)` in a transaction that writes the state."""
        return await self._do(self._landing, lambda: self.files.state.write(work, *args, **kwargs))

    async def wait_until_idle(self) -> None:
        """Wait until what has arrived is durable, and no merge is running."""
        if self._next_landing is not None:
            await asyncio.wait([self._next_landing])
        async with self._one_at_a_time:
            if self._last_merge is not None:
                # If it failed, the next run merges its pages.
                await asyncio.gather(self._last_merge, return_exceptions=True)


@asynccontextmanager
async def open_warehouse(
    settings: Settings, activity: str, clock: Clock, *, rewrites: bool = False
) -> AsyncIterator[Warehouse]:
    """Open the warehouse and its state for writing; no other process can open them until the block ends.

    Waits up to `settings.busy_wait` seconds for another writer. Raises as `open_files` does.
    """
    with ExitStack() as opened:
        files = await _open_when_free(opened, settings, activity, clock, rewrites=rewrites)
        sibling = opened.enter_context(closing(files.db.cursor()))
        with ThreadPoolExecutor(1, "landing") as landing, ThreadPoolExecutor(1, "merging") as merging:
            warehouse = Warehouse(files, landing, merging, sibling)
            try:
                yield warehouse
            finally:
                await warehouse.wait_until_idle()


async def _open_when_free(
    opened: ExitStack, settings: Settings, activity: str, clock: Clock, *, rewrites: bool
) -> Files:
    """Open the files, which `opened` closes. If another process holds them, one line names it, and this waits."""
    until, is_said = clock.monotonic() + settings.busy_wait, False
    while True:
        try:
            return opened.enter_context(open_files(settings, activity, now=clock.now(), rewrites=rewrites))
        except WarehouseBusy as busy:
            if (left := until - clock.monotonic()) <= 0:
                raise
            if not is_said:
                holder = str(busy).split(". ")[0]
                notices.warning(f"{holder}. Waiting up to {span(settings.busy_wait)} for the lock.")
            is_said = True
            await clock.sleep(min(_LOOK_EVERY, left))
