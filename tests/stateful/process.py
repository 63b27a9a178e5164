"""One process of the writer: a warehouse open in its own event loop, until it is closed or killed."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from connectors.warehouse.ingest.landing.frames import Frame
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.warehouse import open_warehouse
from tests.landed import unmerged
from tests.simulation.crashes import Crash, CrashTrigger, crash_points
from tests.simulation.loop import Killed
from tests.stateful.model import Row

T = TypeVar("T")


def _rows(connection: Connection, query: str) -> list[Row]:
    return connection.db.execute(query).fetchall()


class Process:
    """The writer's process. `on_death` is called when it is killed; it merges when `merge_bytes` have landed."""

    def __init__(self, path: Path, on_death: Callable[[], None], *, now: datetime, merge_bytes: int) -> None:
        self._on_death = on_death
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_ignore_kills)
        self._dead: asyncio.Future[None] = self._loop.create_future()
        self._opening = open_warehouse(path, "a test", now=now, merge_bytes=merge_bytes, pause=lambda _: None)
        try:
            self.warehouse = self._loop.run_until_complete(self._opening.__aenter__())
        except BaseException:
            self._loop.close()
            raise

    def ask(self, query: str) -> list[Row]:
        return self.run(self.warehouse.write(_rows, query))

    def unmerged(self) -> list[Frame]:
        """Return what landed and is not merged."""
        return self.run(self.warehouse.read(unmerged))

    def run(self, work: Coroutine[Any, Any, T], fault: Crash | None = None) -> T:
        """Run a coroutine; if the fault kills the process, raise Killed."""
        if fault is None:
            return self._loop.run_until_complete(work)
        with crash_points(CrashTrigger(fault, self._die)):
            return self._loop.run_until_complete(self._until_killed(work))

    async def _until_killed(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        both: list[asyncio.Future[Any]] = [task, self._dead]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not self._dead.done():
            return await task
        # The task may wait for a commit that never comes.
        task.cancel()
        await asyncio.wait([task])
        raise Killed

    def _die(self) -> None:
        self._on_death()
        self._loop.call_soon_threadsafe(self._dead.set_result, None)

    def close(self) -> None:
        """Close the warehouse. After a kill this does not matter: its files are no longer used."""
        try:
            self._loop.run_until_complete(self._opening.__aexit__(None, None, None))
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


def _ignore_kills(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), Killed):
        loop.default_exception_handler(context)
