"""The tasks of a run that scan: they end together if one of them fails, or if an error makes all others useless."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from connectors.warehouse.storage.errors import WarehouseError
from flows.engine.batches import Batch
from flows.engine.requests import StopRun
from flows.engine.run import Run

SCOPE_DENIED = "api_scope_denied"


class Scans:
    """Starts steps of a run as tasks of a group."""

    def __init__(self, run: Run, group: asyncio.TaskGroup) -> None:
        self._run = run
        self._group = group
        self._tasks: dict[asyncio.Task[None], bool] = {}

    def start(self, step: Callable[..., Awaitable[Any]], run: Run, batch: Batch | None = None) -> None:
        """Start a step: one that scans a batch, or without one the listing of accounts."""
        task = self._group.create_task(self._carry_out(step(run) if batch is None else step(run, batch)))
        self._tasks[task] = batch is not None

    async def _carry_out(self, step: Awaitable[Any]) -> None:
        try:
            await step
        except StopRun as stop:
            self._run.stopped_by = self._run.stopped_by or stop.failure
            self._run.batcher.close()
            # The requests of the others would fail, too. If media is denied, accounts are listed.
            for task, is_media in self._tasks.items():
                if task is not asyncio.current_task() and (is_media or stop.failure.code != SCOPE_DENIED):
                    task.cancel()


@asynccontextmanager
async def open_scans(run: Run) -> AsyncIterator[Scans]:
    """Start steps in the block, and wait for them at its end."""
    async with fail_fast_group() as group:
        yield Scans(run, group)


@asynccontextmanager
async def fail_fast_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks in a group: the first one that fails cancels the others, and its exception is raised, not a group.

    If several fail, an error of the warehouse is raised, as it must be fixed first.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as errors:
        error: Exception = errors.subgroup(WarehouseError) or errors
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        # The cause is kept; the group adds no information.
        raise error from error.__cause__
