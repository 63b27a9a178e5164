"""Dask without processes: tasks run on the event loop of the test, and fail as it chooses."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import Any

from flows.clock import ContinuedClock
from flows.config.settings import Settings
from flows.engine.concurrency import Slots
from flows.engine.dask.scans import DaskScans
from flows.engine.dask.task import WORKER_DIED, Task, scan_task
from flows.engine.paging import AccountScan, Ended
from flows.engine.run import RunResources
from flows.engine.scan import ScanContext
from models.clock import Clock

Handler = Callable[[tuple[float, list[Any]]], None]
Fate = Callable[[Task, bytes], bytes | None]


def _nothing(_: Task, result: bytes) -> bytes:
    return result


class _Arguments(pickle.Unpickler):
    """Returns the arguments of a call, without calling the function."""

    def find_class(self, _: str, __: str) -> Any:  # noqa: ANN401
        return lambda *arguments: arguments


@dataclass
class FakeClient:
    """A Dask client. `fate` is called with a task and its result; it returns what arrives, or None: its worker died.

    It may raise an exception instead.
    """

    resources: RunResources
    fate: Fate = _nothing
    clock: Clock | None = None
    tasks: list[Task] = field(default_factory=list)
    handlers: dict[str, Handler] = field(default_factory=dict)
    threads: int = 2
    is_stopped: bool = False

    async def nthreads(self) -> dict[str, int]:
        return {"first": self.threads - 1, "second": 1}

    def subscribe_topic(self, topic: str, handler: Handler) -> None:
        self.handlers[topic] = handler

    def unsubscribe_topic(self, topic: str) -> None:
        del self.handlers[topic]

    async def log_event(self, _: str, event: str) -> None:
        assert event == "stop"
        self.is_stopped = True

    def submit(self, _: object, call: bytes, *, pure: bool) -> Any:  # noqa: ANN401
        assert not pure
        terms, topic, packed = _Arguments(BytesIO(call)).load()
        assert terms
        future = asyncio.ensure_future(self._run(topic, packed))
        future.release = future.cancel  # type: ignore[attr-defined]
        return future

    async def _run(self, topic: str, packed: bytes) -> bytes | str:
        resources, task = self.resources, pickle.loads(packed)
        self.tasks.append(task)
        scanned = await scan_task(
            task,
            resources.send,
            clock=resources.clock if self.clock is None else ContinuedClock(self.clock, task.sent_at, task.monotonic),
            random=resources.random,
            new_id=resources.new_id,
            report=lambda scope, seconds: self.handlers[topic]((0.0, ["cooldown", scope, seconds])),
            is_wanted=lambda: not self.is_stopped,
        )
        result = self.fate(task, scanned.pack())
        return WORKER_DIED if result is None else result


@asynccontextmanager
async def in_tasks(
    resources: RunResources, fate: Fate = _nothing, clock: Clock | None = None
) -> AsyncIterator[tuple[RunResources, FakeClient]]:
    """Yield resources with which a run scans in tasks on two workers; `clock` is that of the workers."""
    client = FakeClient(resources, fate, clock)
    settings = Settings(base_url="http://127.0.0.1", api_key="key", concurrency=2)
    of_runs: dict[str, DaskScans] = {}

    async def scan_account(run: ScanContext, account: AccountScan, ended: Ended) -> None:
        if run.beginning.run_id not in of_runs:
            of_runs[run.beginning.run_id] = DaskScans(client, settings, threads=2)
        await of_runs[run.beginning.run_id].scan_account(run, account, ended)

    try:
        yield replace(resources, slots=Slots(100), scan_account=scan_account), client
    finally:
        for scans in of_runs.values():
            await scans.close()
