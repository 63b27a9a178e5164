"""The files that belong together, opened for writing under one lock: the state, the warehouse and the raw store.

Of a run, one thread lands all that has arrived in one transaction of the state, and another one merges meanwhile.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar
from uuid import uuid4

from connectors.state.database import State, open_state, open_state_read_only, state_path
from connectors.state.identity import read_erasure, read_identity, write_token
from connectors.state.inbox import delete_landings, forget_order, land, read_landings, read_unmerged
from connectors.state.runs import mark_interrupted
from connectors.warehouse.maintenance.compact_file import remove_left_over, rewrite_file
from connectors.warehouse.storage import identity as of_warehouse
from connectors.warehouse.storage.connection import (
    Database,
    explained,
    release_memory,
    transaction,
)
from connectors.warehouse.storage.connection import open_warehouse as open_file
from connectors.warehouse.storage.files import real
from connectors.warehouse.storage.holder import hold
from flows.config.settings import Settings
from flows.reporting.progress import notices
from flows.reporting.words import span
from models.checkpoint import BATCH_BYTES, Landing, ScopeCooldown, cut_batch
from models.clock import Clock
from models.erasure import ACTIVITY, UNFINISHED
from models.files import NEW, Identity, WarehouseBusy, WarehouseUnusable, find_mismatch
from models.item import CONTENT_RULE
from models.mapping import MediaMapping

P = ParamSpec("P")
T = TypeVar("T")

# The size of DuckDB's WAL, in bytes, that triggers a checkpoint: until then DuckDB keeps its contents in memory too.
_LOG_BYTES = 32 * 1024 * 1024

# Seconds between two attempts to open files that another process holds.
_LOOK_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class Files:
    """The state and the warehouse, open for writing, and the folder of its raw store.

    Items are read with `mapping`.
    """

    state: State
    db: Database
    path: Path
    raw: Path
    mapping: MediaMapping

    def query(self, work: Callable[Concatenate[Database, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(db, ...)` in a transaction of the warehouse, on what is merged. Raises as `work`."""
        with transaction(self.db):
            return work(self.db, *args, **kwargs)

    def merge(self, db: Database) -> None:
        """Merge what has landed, a batch at a time, with this connection. Raises as `merge_next`."""
        while self.merge_next(db):
            pass

    def merge_next(self, db: Database) -> bool:
        """Merge the next batch of what has landed with this connection; return whether there was one.

        Raises duckdb.Error and OSError; earlier batches are merged then.
        """
        # Imported here, on the merging thread while pages arrive: pyarrow takes longer to import than a request, and
        # commands that merge nothing do not need it.
        from connectors.warehouse.merge.merge import merge_batch  # noqa: PLC0415

        merged = of_warehouse.read_warehouse(db).merged_seq
        with self.state.reading() as connection:
            batch = cut_batch(read_landings(connection, merged))
        if batch:
            with transaction(db):
                merge_batch(db, batch, self.mapping, self.raw)
            self.state.write(delete_landings, batch[-1].seq)
            release_memory(db)
        return bool(batch)


def open_existing_state(warehouse: Path) -> AbstractContextManager[State | None]:
    """Open the state for reading, also while another process writes; None if there is none."""
    return open_state_read_only(state_path(real(warehouse)))


@contextmanager
def open_files(settings: Settings, activity: str, *, now: datetime, rewrites: bool = False) -> Iterator[Files]:
    """Lock and open the files for writing, finish what a killed process left, and merge its pages.

    Media are read with the mapping of the settings, unless stored rows were read differently. If the block `rewrites`
    the warehouse's file, it is written again, compactly, after the block and before the lock is released.

    Raises WarehouseBusy, which names the holder, and WarehouseUnusable, also if the files do not belong together; then
    nothing is changed.
    """
    path, since = settings.warehouse, now.isoformat(timespec="seconds")
    with hold(path, activity, since=since, pause=time.sleep), open_state(state_path(real(path))) as state:
        if not path.exists():
            _check_pair(state, path, Identity(NEW, 0))
        state.write(mark_interrupted)
        if activity != ACTIVITY and state.read(read_erasure).accounts:
            notices.warning(UNFINISHED)
        with explained(path):
            remove_left_over(real(path))
        with open_file(path) as db:
            yield _finish(state, db, settings)
        if rewrites:
            rewrite_file(path)


def _check_pair(state: State, warehouse: Path, identity: Identity) -> str:
    """Return the token of the state; raise WarehouseUnusable, with the fix, if the two files do not belong together."""
    of_state = state.read(read_identity)
    if (wrong := find_mismatch(of_state, identity)) is not None:
        raise WarehouseUnusable(wrong.format(state=state.path, warehouse=warehouse))
    return of_state.token


def _finish(state: State, db: Database, settings: Settings) -> Files:
    """Finish what a killed process left, and merge its pages."""
    # Imported here, because it imports pyarrow, and commands that only read the state import this module.
    from connectors.warehouse.raw.parts import find_unmerged_parts  # noqa: PLC0415

    theirs = of_warehouse.read_warehouse(db)
    before = _check_pair(state, settings.warehouse, theirs.identity)
    raw, unmerged = settings.raw_folder() / theirs.id, state.read(read_unmerged)
    for part in find_unmerged_parts(
        raw,
        merged_seq=theirs.merged_seq,
        raw_seq=theirs.raw_seq,
        inbox=unmerged,
        is_erasing=bool(state.read(read_erasure).accounts),
    ):
        part.unlink()
    # A kill in between leaves the state with the token that the warehouse knows as the one before.
    token = uuid4().hex
    of_warehouse.write_token(db, token, before=before)
    state.write(write_token, token)
    of_warehouse.write_token(db, token, before=None)
    state.write(delete_landings, theirs.merged_seq)
    mapping = settings.media_mapping()
    with transaction(db):
        if of_warehouse.adopt_mapping(db, mapping):
            state.write(forget_order)
        in_force = of_warehouse.read_warehouse(db).mapping or mapping
        if theirs.content_rule not in (None, CONTENT_RULE):
            # Imported here, because a release rarely has another rule.
            from connectors.warehouse.maintenance.rebuild import read_again  # noqa: PLC0415

            read_again(db, raw, in_force, force=True)
    files = Files(state, db, settings.warehouse, raw, in_force)
    files.merge(db)
    return files


class Warehouse:
    """The files of a run, on two threads: one lands pages, the other merges them meanwhile.

    All else runs on the landing thread, in the order of the calls. Every method raises WarehouseUnusable when the disk,
    DuckDB or SQLite fails; committed data is kept.
    """

    def __init__(self, files: Files, landing: Executor, merging: Executor, sibling: Database) -> None:
        """Use open files on a thread that lands, and a `sibling` of their connection on one that merges."""
        self.files = files
        self._landing, self._merging, self._sibling = landing, merging, sibling
        # What the next transaction lands; it begins when the one before has ended.
        self._arrived: list[Landing | ScopeCooldown] = []
        self._next_landing: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        # The running merge or the last one, and the bytes that landed and that it does not merge.
        self._last_merge = asyncio.create_task(asyncio.sleep(0))
        self._unmerged = 0

    async def do(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` on the landing thread, on merged data. Raises also what it raises.

        If the caller is cancelled, it still runs to its end.
        """
        return await self._on(self._landing, lambda: work(*args, **kwargs))

    async def _on(self, thread: Executor, work: Callable[[], T]) -> T:
        def run() -> T:
            with explained(self.files.path):
                return work()

        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(thread, run))

    async def land(self, arrived: Landing | ScopeCooldown) -> None:
        """Return when what arrived is durable. All that arrives during a transaction shares the next one."""
        self._arrived.append(arrived)
        if self._next_landing is None:
            self._next_landing = asyncio.create_task(self._land_arrived())
            # If all callers were cancelled, nobody retrieves its exception, and asyncio would print a traceback.
            self._next_landing.add_done_callback(lambda landing: landing.cancelled() or landing.exception())
        # A caller that is cancelled does not cancel the landing of others.
        await asyncio.shield(self._next_landing)

    async def _land_arrived(self) -> None:
        async with self._one_at_a_time:
            arrived, self._arrived, self._next_landing = self._arrived, [], None
            if self._last_merge.done() or self._unmerged >= BATCH_BYTES:
                # Raises what failed. If a full batch has landed during the merge, a slow disk slows down the scans.
                await asyncio.shield(self._last_merge)
            await self.do(self.files.state.write, land, arrived)
            self._unmerged += sum(one.size for one in arrived if isinstance(one, Landing))
            if self._unmerged >= BATCH_BYTES and self._last_merge.done():
                self._last_merge = asyncio.create_task(self._merge_batch())

    async def _merge_batch(self) -> None:
        """Merge a full batch; what has landed behind it waits for the next one, because small batches cost as much."""
        self._unmerged -= BATCH_BYTES
        await self._on(self._merging, lambda: self.files.merge_next(self._sibling))
        log = self.files.path.with_name(f"{self.files.path.name}.wal")
        if log.exists() and log.stat().st_size >= _LOG_BYTES:
            # On the landing thread and between two merges: DuckDB checkpoints only without concurrent writes.
            await self.do(self.files.db.execute, "CHECKPOINT")

    async def merge(self) -> None:
        """Merge everything that has landed. If the caller is cancelled, the merge is not."""
        await asyncio.shield(self._last_merge)
        self._last_merge = asyncio.create_task(self._on(self._merging, lambda: self.files.merge(self._sibling)))
        await asyncio.shield(self._last_merge)

    async def wait_until_idle(self) -> None:
        """Wait until what has arrived is durable, and no merge is running."""
        if self._next_landing is not None:
            await asyncio.wait([self._next_landing])
        async with self._one_at_a_time:
            # If it failed, the next run merges its pages.
            await asyncio.gather(self._last_merge, return_exceptions=True)


@asynccontextmanager
async def open_warehouse(settings: Settings, activity: str, clock: Clock) -> AsyncIterator[Warehouse]:
    """Open the files for a run; no other process can open them until the block ends. Raises as `open_when_free`."""
    with ExitStack() as opened:
        files = await open_when_free(opened, settings, activity, clock)
        sibling = opened.enter_context(closing(files.db.cursor()))
        with ThreadPoolExecutor(1, "landing") as landing, ThreadPoolExecutor(1, "merging") as merging:
            warehouse = Warehouse(files, landing, merging, sibling)
            try:
                yield warehouse
            finally:
                await warehouse.wait_until_idle()


async def open_when_free(
    opened: ExitStack, settings: Settings, activity: str, clock: Clock, *, rewrites: bool = False
) -> Files:
    """Open the files, which `opened` closes. Raises as `open_files`.

    If another process holds them, one line names it, and this waits up to `settings.busy_wait` seconds.
    """
    until, is_told = clock.monotonic() + settings.busy_wait, False
    while True:
        try:
            return opened.enter_context(open_files(settings, activity, now=clock.now(), rewrites=rewrites))
        except WarehouseBusy as busy:
            if (left := until - clock.monotonic()) <= 0:
                raise
            if not is_told:
                notices.warning(f"{str(busy).split('. ')[0]}. Waiting up to {span(settings.busy_wait)} for the lock.")
        is_told = True
        await clock.sleep(min(_LOOK_EVERY, left))
