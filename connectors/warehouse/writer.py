"""The one writer: a thread that owns the connection, and commits whatever has arrived together."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar
from uuid import uuid4

import duckdb
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from connectors.warehouse.archive import enroll, keep
from connectors.warehouse.connection import duck, explain, writer
from connectors.warehouse.errors import WarehouseUnusable
from connectors.warehouse.fold import FoldCounts, fold
from connectors.warehouse.landing import land, last_seq
from connectors.warehouse.ledger import mark_published
from connectors.warehouse.publish import publish
from models.landing import Landing

P = ParamSpec("P")
T = TypeVar("T")

# As many landings as one commit takes, and as much staged text (bytes) as is folded at once.
_BATCH = 256
_FOLD_BYTES = 16 * 1024 * 1024


class Warehouse:
    """The warehouse file, open for writing. All its work runs on one thread, in the order of the calls.

    Every method raises WarehouseUnusable when DuckDB fails (a full disk, say); what was committed stays.
    """

    def __init__(
        self,
        path: Path,
        connection: Connection,
        thread: ThreadPoolExecutor,
        *,
        fold_bytes: int,
        archive: Path | None,
    ) -> None:
        self._path = path
        self._connection = connection
        self._thread = thread
        self._fold_bytes = fold_bytes
        self._archive = archive
        self._staged_bytes = 0
        self._seq = 0
        self._folded = FoldCounts()
        self._arrived: list[tuple[Landing, asyncio.Future[None]]] = []
        self._committing: asyncio.Task[None] | None = None

    async def land(self, landing: Landing) -> None:
        """Return once the landing is durable; landings that arrive meanwhile share the next commit."""
        durable = asyncio.get_running_loop().create_future()
        self._arrived.append((landing, durable))
        # A task that was cancelled before its first step is done, and could not say so.
        if self._committing is None or self._committing.done():
            self._committing = asyncio.create_task(self._commit_arrivals())
        await durable

    async def _commit_arrivals(self) -> None:
        try:
            while self._arrived:
                batch, self._arrived = self._arrived[:_BATCH], self._arrived[_BATCH:]
                failure: Exception | None = None
                try:
                    await self._on_thread(self._commit, [landing for landing, _ in batch])
                except Exception as error:  # noqa: BLE001 - it is handed to those who wait, below
                    failure = error
                for _, durable in batch:
                    if durable.cancelled():
                        continue
                    if failure is None:
                        durable.set_result(None)
                    else:
                        durable.set_exception(failure)
        finally:
            self._committing = None

    def _commit(self, landings: list[Landing]) -> None:
        with self._connection.begin():
            self._seq = land(self._connection, landings, after=self._seq)
        self._staged_bytes += sum(len(landing.page.body) for landing in landings if landing.page is not None)
        if self._staged_bytes >= self._fold_bytes:
            self._fold()

    def _fold(self) -> None:
        with self._connection.begin():
            keep(self._connection, self._archive)
            counts = fold(self._connection)
        self._folded += counts
        self._staged_bytes = 0

    async def transact(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(connection, ...)` on the writer's thread, in a transaction of its own."""

        def run() -> T:
            with self._connection.begin():
                return work(self._connection, *args, **kwargs)

        return await self._on_thread(run)

    async def fold(self) -> FoldCounts:
        """Fold all that is staged; return what was folded since the last call, on arrival too."""
        await self._on_thread(self._fold)
        counts, self._folded = self._folded, FoldCounts()
        return counts

    async def publish(self, snapshot: Path, *, at: datetime, version: str) -> int:
        """Write what is folded into the file, then publish a snapshot of it; return its size in bytes."""

        def run() -> int:
            if snapshot.resolve() == self._path.resolve():
                message = f"{snapshot} is the warehouse itself: give GRAMHOUSE_SNAPSHOT a path of its own."
                raise WarehouseUnusable(message)
            duck(self._connection).execute("CHECKPOINT")
            size = publish(self._connection, snapshot, at=at, version=version)
            with self._connection.begin():
                mark_published(self._connection, now=at)
            return size

        return await self._on_thread(run)

    async def settle(self) -> None:
        """Wait until nothing that arrived is left to commit."""
        while self._committing is not None and not self._committing.done():
            await asyncio.wait([self._committing])

    async def _on_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        def run() -> T:
            try:
                return work(*args, **kwargs)
            except (duckdb.Error, DBAPIError) as error:
                raise explain(self._path, error) from error

        # Shielded: what the thread was handed is done, also when whoever waits for it is cancelled.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, run))

    def start(self, new_id: Callable[[], str]) -> None:
        """Read where the last process left off; called once, on the writer's thread."""
        with self._connection.begin():
            if self._archive is not None:
                enroll(self._connection, new_id=new_id)
            self._seq = last_seq(self._connection)


@asynccontextmanager
async def open_warehouse(
    path: Path,
    activity: str,
    *,
    now: datetime,
    fold_bytes: int = _FOLD_BYTES,
    pause: Callable[[float], None] = time.sleep,
    archive: Path | None = None,
    new_id: Callable[[], str] = lambda: uuid4().hex,
) -> AsyncIterator[Warehouse]:
    """Open the warehouse for writing; nobody else can until the block ends.

    With `archive`, a folder, every page is kept there before it is folded; `new_id` names a warehouse in it.

    Raises WarehouseBusy naming the holder, and WarehouseUnusable.
    """
    loop = asyncio.get_running_loop()
    stack = ExitStack()
    with ThreadPoolExecutor(1, thread_name_prefix="warehouse") as thread:

        def enter() -> Warehouse:
            since = now.isoformat(timespec="seconds")
            connection = stack.enter_context(writer(path, activity, since=since, pause=pause))
            warehouse = Warehouse(path, connection, thread, fold_bytes=fold_bytes, archive=archive)
            warehouse.start(new_id)
            return warehouse

        try:
            warehouse = await loop.run_in_executor(thread, enter)
        except BaseException:
            # Whoever is cancelled while the file is being opened leaves it shut: this runs after `enter`.
            thread.submit(stack.close)
            raise
        try:
            yield warehouse
        finally:
            closing = asyncio.create_task(_close(warehouse, thread, stack))
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError:
                await closing
                raise


async def _close(warehouse: Warehouse, thread: ThreadPoolExecutor, stack: ExitStack) -> None:
    await warehouse.settle()
    await asyncio.get_running_loop().run_in_executor(thread, stack.close)
