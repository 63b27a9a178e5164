"""A connection to the warehouse file, and the single thread that uses it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import duckdb

from connectors.warehouse.storage.connection import Connection, explain

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConnectionWorker:
    """Runs functions with a connection to the file at `path`, one after the other."""

    path: Path
    connection: Connection
    thread: ThreadPoolExecutor

    async def do(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on the worker's thread. Raises WarehouseError when DuckDB fails, and what `work` raises.

        If the caller is cancelled, submitted work still runs to its end.
        """

        def run() -> T:
            try:
                return work(self.connection)
            except duckdb.Error as error:
                raise explain(self.path, error) from error

        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self.thread, run))
