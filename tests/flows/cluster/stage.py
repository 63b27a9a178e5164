"""Workers in this process: tasks that scan batches as workers do, and are lost when a test says so."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from connectors.store.object_store import ObjectStore
from flows.cluster.batch_log import Entry, decode
from flows.cluster.batch_spec import ApiAccess, read_spec
from flows.cluster.dask_workers import DaskWorkers
from flows.cluster.worker import scan_logged
from flows.cluster.worker_batches import batches_on
from flows.engine.run_context import RunResources
from models.media_page import DEFAULT_PATHS
from models.schema.mapping_built_in import BUILT_IN
from tests.clocks import VirtualClock
from tests.flows.stage import Service, staged
from tests.store.memory import FlakyStore, MemoryStore

API = ApiAccess("https://api.example.com", DEFAULT_PATHS, BUILT_IN, BUILT_IN, 2, 4, 100.0, scan_expired=False)


class FakeFuture:
    """A task, as Dask's client shows it."""

    def __init__(self, work: "asyncio.Task[None]") -> None:
        self._work = work

    @property
    def status(self) -> str:
        if not self._work.done():
            return "pending"
        if self._work.cancelled():
            return "lost"
        return "finished" if self._work.exception() is None else "error"

    def add_done_callback(self, call: Callable[[object], None]) -> None:
        self._work.add_done_callback(call)

    async def exception(self) -> BaseException | None:
        return self._work.exception()

    def release(self) -> None:
        """Let go of it; the worker goes on, as a thread of a worker does."""


@dataclass
class FakeCluster:
    """Scans what is submitted; `store_of` gives each attempt its own view of the store."""

    service: Service
    store: ObjectStore
    store_of: Callable[[str, ObjectStore], ObjectStore] = lambda _, store: store
    submitted: list[str] = field(default_factory=list)
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)
    status: str = "running"

    def submit(self, _: object, __: str, prefix: str, *, key: str, pure: bool) -> FakeFuture:
        assert not pure
        self.submitted.append(key)
        task = asyncio.create_task(self.scan(prefix, self.store_of(key, self.store)))
        self.tasks.append(task)
        return FakeFuture(task)

    async def scan(self, prefix: str, store: ObjectStore) -> None:
        spec = await read_spec(store, prefix)
        ids = count(1)
        await scan_logged(
            store,
            prefix,
            spec,
            self.service.send,
            clock=self.service.clock,
            random=lambda: 0.5,
            new_id=lambda: f"{prefix}-{id(store)}-{next(ids)}-{self.service.clock.passed}",
        )

    def lost(self) -> int:
        """Attempts that ended by an error so far."""
        return sum(task.done() and not task.cancelled() and task.exception() is not None for task in self.tasks)

    async def nthreads(self) -> dict[str, int]:
        return {"one": 2}


class Lost(Exception):  # noqa: N818
    """A worker that is gone."""


@dataclass
class DyingStore(FlakyStore):
    """A worker's view of a store: after so many entries the worker is gone, before or after the next is written.

    Only entries that `counts` accepts are counted.
    """

    shared: MemoryStore = field(default_factory=MemoryStore)
    entries: int = 1
    after: bool = False
    counts: Callable[[Entry], bool] = lambda _: True

    def __post_init__(self) -> None:
        self.objects = self.shared.objects

    async def create(self, key: str, data: bytes) -> bool:
        counts = self.counts(decode(data))
        if counts and self.entries == 0 and not self.after:
            raise Lost
        created = await super().create(key, data)
        if counts and self.entries == 0:
            raise Lost
        self.entries -= counts
        return created


@asynccontextmanager
async def clustered(
    folder: Path,
    service: Service,
    cluster: FakeCluster,
    said: list[str] | None = None,
    api: ApiAccess = API,
    **changes: Any,  # noqa: ANN401
) -> AsyncIterator[RunResources]:
    """Open what a run works with; the cluster scans its batches, which are small."""
    ids = count(1)
    heard: list[str] = [] if said is None else said
    async with (
        staged(folder, service, **changes) as resources,
        batches_on(
            DaskWorkers(cluster, "the store"),
            cluster.store,
            "the store",
            api,
            resources.warehouse,
            # Of its own: its looks at the store and the workers must not make the service's days pass.
            clock=VirtualClock(),
            new_id=lambda: f"shared-{next(ids)}-{id(service)}-{service.clock.passed}",
            say=heard.append,
        ) as batches,
    ):
        batches.least = 2
        yield replace(resources, batches=batches)
