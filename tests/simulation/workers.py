"""Simulates scenarios with batches on workers, through a shared store that fails and is slow."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any

from pydantic import SecretStr

from connectors.sandbox.http.keys import DEMO_KEY
from connectors.source.client import ApiClient
from connectors.source.retry import Send
from connectors.store.repeating import RepeatingStore
from connectors.warehouse.warehouse import open_warehouse
from flows.cluster.batch_log import Entry, decode
from flows.cluster.batch_spec import ApiAccess, read_spec
from flows.cluster.dask_workers import DaskWorkers
from flows.cluster.worker import scan_logged
from flows.cluster.worker_batches import batches_on
from flows.engine.concurrency import Slots
from flows.engine.pipeline import run_sync
from flows.engine.run_context import RunResources
from flows.reporting.run_report import RunReport
from models.media_page import DEFAULT_PATHS
from models.schema.mapping_built_in import BUILT_IN
from tests.flows.cluster.fake_cluster import FakeCluster
from tests.simulation.loop import VirtualLoop
from tests.simulation.scenario import Day, Scenario
from tests.simulation.simulator import MOST_BYTES, ProcessClock, Simulator
from tests.simulation.transport import SimulatedTransport
from tests.store.memory import FlakyStore


@dataclass
class ProcessStore(FlakyStore):
    """The store as seen by one process and its workers; after their death, nothing reaches it."""

    loop: VirtualLoop | None = None
    on_entry: Callable[[Entry], None] = lambda _: None

    async def create(self, key: str, data: bytes) -> bool:
        is_new = key not in self.objects
        try:
            return await super().create(key, data)
        finally:
            if is_new and self.objects.get(key) == data and key.count("/") == 3:
                self.on_entry(decode(data))

    async def _fail_before(self, verb: str, key: str) -> bool:
        assert self.loop is not None
        fails = await super()._fail_before(verb, key)
        if self.loop.dead:
            message = "the process is dead"
            raise ConnectionAbortedError(message)
        return fails


@dataclass
class SimulatedCluster(FakeCluster):
    """Workers on the event loop of the process; they die with it."""

    send: Send | None = None
    clock: Any = None
    random: Random | None = None
    number: int = 0

    async def scan(self, prefix: str, store: Any) -> None:  # noqa: ANN401 - a store
        assert self.send is not None
        assert self.random is not None
        ids = count(1)
        await scan_logged(
            store,
            prefix,
            await read_spec(store, prefix),
            self.send,
            clock=self.clock,
            random=self.random.random,
            new_id=lambda: f"{self.number}-{prefix}-{next(ids)}",
        )


class WorkersSimulator(Simulator):
    """Simulates a scenario with workers; what they land is durable once its log entry is."""

    objects: dict[str, bytes]
    failed: int

    def __init__(self, scenario: Scenario, disk: Any) -> None:  # noqa: ANN401 - a disk
        # Workers have no request limit. The wait is limited because they poll the store every few seconds of it.
        days = tuple(replace(day, max_requests=None, max_wait=min(day.max_wait, 400.0)) for day in scenario.days)
        super().__init__(replace(scenario, days=days), disk)
        self.objects, self.failed = {}, 0

    def _landing(self, landings: Any, *, after: int) -> Any:  # noqa: ANN401 - landings, and their records
        records = super()._landing(landings, after=after)
        catalogue = [one for one in landings if self._is_of_the_catalogue(one)]
        self._pending = [event for landing in catalogue for event in self._events(landing)]
        return records

    def _is_of_the_catalogue(self, landing: Any) -> bool:  # noqa: ANN401
        if landing.cooldown is not None:
            return bool(landing.cooldown.scope == "account_catalog")
        found = landing.checkpoint or landing.page
        return found is not None and found.partition.resource == "accounts"

    def _entered(self, entry: Entry) -> None:
        self._log += [event for landing in entry.commits for event in self._events(landing)]

    async def _process(self, loop: VirtualLoop, number: int, day: Day, random: Random) -> RunReport:
        loop.most_steps = 1_000_000
        clock, ids = ProcessClock(loop), count(1)
        transport = SimulatedTransport(
            self.sandbox, random, self._log, slowest=day.latency, day_changes=day.day_changes
        )
        client = ApiClient(
            "http://127.0.0.1", SecretStr(DEMO_KEY), clock=clock, transport=transport, max_body_bytes=MOST_BYTES
        )
        flaky = ProcessStore(self.objects, chance=random, loop=loop, on_entry=self._entered)
        store = RepeatingStore(flaky, clock=clock)
        api = ApiAccess(
            "http://127.0.0.1", DEFAULT_PATHS, BUILT_IN, BUILT_IN, day.page_size, day.concurrency, day.max_wait,
            scan_expired=False,
        )  # fmt: skip
        cluster = SimulatedCluster(None, store, send=client.send, clock=clock, random=random, number=number)  # type: ignore[arg-type]

        def new_id() -> str:
            return f"{number}-{next(ids)}"

        warehouse = open_warehouse(self.disk.warehouse, "a simulation", now=clock.now(), merge_bytes=day.merge_bytes)
        async with warehouse as opened, client:
            workers = batches_on(
                DaskWorkers(cluster, "the store"),
                store,
                "the store",
                api,
                opened,
                clock=clock,
                new_id=new_id,
                say=lambda _: None,
            )
            async with workers as batches:
                batches.least = 1
                resources = RunResources(
                    send=client.send,
                    warehouse=opened,
                    clock=clock,
                    random=random.random,
                    new_id=new_id,
                    slots=Slots(day.concurrency),
                    page_size=day.page_size,
                    max_wait=day.max_wait,
                    batches=batches,
                )
                report = await run_sync(self.request(day), resources)
        self.failed += flaky.failed
        return report
