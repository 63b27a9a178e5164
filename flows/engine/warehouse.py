"""The single writer: lands everything that has arrived in one transaction of the state, and merges concurrently."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

from connectors.state.database import SqlConnection
from connectors.state.identity import read_salt
from connectors.state.inbox import count_landings
from connectors.state.published import read_published
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.publish.publish import Publication, StateRows, publish
from connectors.warehouse.storage.connection import Database, checkpoint, explained, transaction
from flows.engine.files import Files, explained_state, lock_state, open_pair
from models.landing import OUTCOME_BYTES
from models.mapping import BUILT_IN
from models.mapping import Mapping as MediaMapping
from models.media_page import DEFAULT_PATHS, PagePaths
from models.page_commit import PageCommit

P = ParamSpec("P")
T = TypeVar("T")

_OnState: TypeAlias = Callable[Concatenate[SqlConnection, P], T]

_log = logging.getLogger(__name__)

# The most page commits per transaction, and the bytes of pages that are enough for a merge.
_BATCH = 256
_MERGE_BYTES = 16 * 1024 * 1024

# The size of DuckDB's WAL, in bytes, that triggers a checkpoint: until then DuckDB keeps its contents in memory too.
_LOG_BYTES = 96 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Worker:
    """Runs functions with a connection to the file at `path`, one after the other, on a thread."""

    path: Path
    db: Database
    thread: ThreadPoolExecutor

    async def do(self, work: Callable[[Database], T]) -> T:
        """Run `work` on the worker's thread. Raises WarehouseError when DuckDB fails, and what `work` raises.

        If the caller is cancelled, submitted work still runs to its end.
        """

        def run() -> T:
            with explained(self.path), explained_state():
                return work(self.db)

        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self.thread, run))


def _size(commit: PageCommit) -> int:
    """Return what a commit weighs in a merge, in bytes."""
    return (len(commit.page.body) if commit.page else 0) + OUTCOME_BYTES * len(commit.outcomes)


class Warehouse:
    """The warehouse with its state, open for writing by two threads: one lands pages, the other merges them meanwhile.

    All other operations run on the landing thread, in the order of the calls. Every method raises WarehouseUnusable
    when the disk or DuckDB fails; committed data is kept.
    """

    def __init__(self, files: Files, landing: _Worker, merging: _Worker) -> None:
        self.recovered_runs = files.recovered_runs
        """The ids of the runs whose pages a killed process had landed, and which opening merged."""
        self.path = files.path
        """The warehouse's file."""
        self.raw = files.raw
        """The folder of its raw store."""
        self.mapping = files.mapping
        """The mapping with which its items were read."""
        self._files = files
        self._landing = landing
        self._merging = merging
        # Of what has landed since the last merge began.
        self._waiting_bytes = 0
        self._merged = MergeStats()
        self._arrived: list[tuple[PageCommit, asyncio.Future[None]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._merge_under_way: asyncio.Task[None] | None = None

    async def land(self, landing: PageCommit) -> None:
        """Return when the page commit is durable. Those that arrive during a transaction share the next one."""
        durable = asyncio.get_running_loop().create_future()
        self._arrived.append((landing, durable))
        # A task that was cancelled before its first step is done, but its `finally` block never ran.
        if self._committing is None or self._committing.done():
            self._committing = asyncio.create_task(self._commit_arrivals())
        await durable

    async def _commit_arrivals(self) -> None:
        try:
            while self._arrived:
                batch, self._arrived = self._arrived[:_BATCH], self._arrived[_BATCH:]
                failure: Exception | None = None
                try:
                    await self._make_room()
                    landings = [landing for landing, _ in batch]
                    await self._make_durable(landings)
                except Exception as error:  # noqa: BLE001 - passed to the waiting callers below
                    failure = error
                else:
                    self._waiting_bytes += sum(map(_size, landings))
                    if self._waiting_bytes >= _MERGE_BYTES and self._merge_under_way is None:
                        self._merge_under_way = asyncio.create_task(self._merge_landed())
                for _, durable in batch:
                    if durable.cancelled():
                        continue
                    if failure is None:
                        durable.set_result(None)
                    else:
                        durable.set_exception(failure)
        finally:
            self._committing = None

    async def _make_durable(self, landings: Sequence[PageCommit]) -> None:
        await self._landing.do(lambda _: self._files.inbox.land(landings))

    async def _make_room(self) -> None:
        """Wait for the running merge if a full batch has landed during it, so that a slow disk slows down the scans."""
        under_way = self._merge_under_way
        if under_way is not None and (under_way.done() or self._waiting_bytes >= _MERGE_BYTES):
            await self._merge_has_ended()

    async def _merge_landed(self) -> None:
        self._waiting_bytes = 0
        self._merged += await self._merging.do(self._merge)
        if self._log_bytes() >= _LOG_BYTES:
            # On the landing thread and between two merges: DuckDB checkpoints only without concurrent writes.
            await self._landing.do(checkpoint)

    def _log_bytes(self) -> int:
        log = self.path.with_name(self.path.name + ".wal")
        return log.stat().st_size if log.exists() else 0

    def _merge(self, db: Database) -> MergeStats:
        return self._files.merge(db, self._files.inbox.last())

    async def _merge_has_ended(self) -> None:
        """Wait for the running merge, if any. Raises its exception."""
        task = self._merge_under_way
        if task is None:
            return
        try:
            # A caller that is cancelled here does not cancel the merge; the next caller waits for it.
            await asyncio.shield(task)
        finally:
            if task.done() and self._merge_under_way is task:
                self._merge_under_way = None

    async def write(self, work: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(db, ...)` on merged data in its own transaction, after the running merge."""
        if (under_way := self._merge_under_way) is not None:
            await asyncio.wait([under_way])
        return await self.read(work, *args, **kwargs)

    async def read(self, work: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(db, ...)` on merged data in its own transaction, without waiting for the running merge."""

        def run(db: Database) -> T:
            with transaction(db):
                return work(db, *args, **kwargs)

        return await self._landing.do(run)

    async def alone(self, work: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(db, ...)`, which begins its own transactions, while no merge runs; raise if one failed."""
        await self._merge_has_ended()
        return await self._landing.do(lambda db: work(db, *args, **kwargs))

    async def read_state(self, work: _OnState[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(connection, ...)` in a transaction that reads the state."""
        return await self._landing.do(lambda _: self._files.state.read(work, *args, **kwargs))

    async def write_state(self, work: _OnState[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(connection, ...)` in a transaction that writes the state."""
        return await self._landing.do(lambda _: self._files.state.write(work, *args, **kwargs))

    def take_numbers(self, count: int) -> int:
        """Take this many landing numbers; return the number before the first of them. On the landing thread."""
        return self._files.state.write(count_landings, count)

    async def publish(self, snapshot: Path, publication: Publication) -> int:
        """Replace the snapshot with all merged data and the present state; return its size in bytes.

        Raises what `connectors.warehouse.publish.publish.publish` does.
        """
        rows = StateRows(*await self.read_state(read_published))
        salted = replace(publication, raw_folder=self.raw, salt=await self.read_state(read_salt))
        return await self.alone(publish, self.path, snapshot, rows, salted)

    async def merge(self) -> MergeStats:
        """Merge everything that has landed. Return the counts of all merges since the last call."""
        while self._merge_under_way is not None:
            await self._merge_has_ended()
        self._merge_under_way = asyncio.create_task(self._merge_landed())
        await self._merge_has_ended()
        counts, self._merged = self._merged, MergeStats()
        return counts

    async def wait_until_idle(self) -> None:
        """Wait until all page commits are durable and no merge is running."""

        # Repeated, because the last commit may begin a merge.
        def pending() -> list[asyncio.Task[None]]:
            tasks = self._committing, self._merge_under_way
            return [task for task in tasks if task is not None and not task.done()]

        while tasks := pending():
            await asyncio.wait(tasks)
        ended = self._merge_under_way
        if ended is not None and not ended.cancelled() and (failure := ended.exception()) is not None:
            # Logged, because no caller awaits the merge any more. The next run merges its pages.
            _log.warning("%s", failure)


@asynccontextmanager
async def open_warehouse(
    path: Path,
    activity: str,
    *,
    now: datetime,
    raw: Path | None = None,
    mapping: MediaMapping = BUILT_IN,
    paths: PagePaths = DEFAULT_PATHS,
) -> AsyncIterator[Warehouse]:
    """Open the warehouse and its state for writing, and merge the pages that a killed process left.

    No other process can open it until the block ends.

    `raw`, `mapping` and `paths` are as for `open_pair`.

    Raises WarehouseBusy, which names the holder, and WarehouseUnusable.
    """
    loop = asyncio.get_running_loop()
    stack = ExitStack()
    with ExitStack() as threads:
        landing, merging = (
            threads.enter_context(ThreadPoolExecutor(1, thread_name_prefix=name)) for name in ("landing", "merging")
        )

        def enter() -> Warehouse:
            state = stack.enter_context(lock_state(path, activity, now=now))
            files = stack.enter_context(open_pair(state, path, raw=raw, mapping=mapping, paths=paths))
            sibling = _Worker(path, files.db.cursor(), merging)
            return Warehouse(files, _Worker(path, files.db, landing), sibling)

        try:
            warehouse = await loop.run_in_executor(landing, enter)
        except BaseException:
            # If opening is cancelled, the file must still be closed: this runs after `enter`, on the same thread.
            landing.submit(stack.close)
            raise
        try:
            yield warehouse
        finally:
            closing = asyncio.create_task(_close(warehouse, landing, merging, stack))
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError:
                await closing
                raise


async def _close(
    warehouse: Warehouse, landing: ThreadPoolExecutor, merging: ThreadPoolExecutor, stack: ExitStack
) -> None:
    await warehouse.wait_until_idle()
    # Work of a cancelled task may still be running on this thread.
    await asyncio.get_running_loop().run_in_executor(merging, lambda: None)
    await asyncio.get_running_loop().run_in_executor(landing, stack.close)
