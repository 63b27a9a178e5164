"""A fake Dask cluster in this process: asyncio tasks scan batches, and a test can make workers die."""

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
from tests.flows.fake_api import FakeApi, open_run_resources
from tests.store.memory import FlakyStore, MemoryStore

API = ApiAccess("https://api.example.com", DEFAULT_PATHS, BUILT_IN, BUILT_IN, 2, 4, 100.0, scan_expired=False)


class FakeFuture:
    """An asyncio task with the interface of a Dask future."""

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
        """Release the future; as with Dask's threads, the work continues."""


@dataclass
class FakeCluster:
    """Scans submitted batches; `store_of` returns the store that an attempt uses."""

    service: FakeApi
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
        """The number of attempts that have failed so far."""
        return sum(task.done() and not task.cancelled() and task.exception() is not None for task in self.tasks)

    async def nthreads(self) -> dict[str, int]:
        return {"one": 2}


class Lost(Exception):  # noqa: N818
    """The worker died."""


@dataclass
class DyingStore(FlakyStore):
    """A worker's store: the worker dies after `entries` entries, before or after (`after`) the next one is written.

    Only entries for which `counts` returns true are counted.
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
async def open_cluster_resources(
    folder: Path,
    service: FakeApi,
    cluster: FakeCluster,
    messages: list[str] | None = None,
    api: ApiAccess = API,
    **changes: Any,  # noqa: ANN401
) -> AsyncIterator[RunResources]:
    """Open the resources of a run whose batches, of few accounts, the cluster scans."""
    ids = count(1)
    received: list[str] = [] if messages is None else messages
    async with (
        open_run_resources(folder, service, **changes) as resources,
        batches_on(
            DaskWorkers(cluster, "the store"),
            cluster.store,
            "the store",
            api,
            resources.warehouse,
            # A separate clock: polling the store and the workers must not advance the API's clock.
            clock=VirtualClock(),
            new_id=lambda: f"shared-{next(ids)}-{id(service)}-{service.clock.passed}",
            say=received.append,
        ) as batches,
    ):
        batches.least = 2
        yield replace(resources, batches=batches)
