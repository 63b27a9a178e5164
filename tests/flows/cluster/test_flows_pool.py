"""Batches on a Prefect work pool: flow runs that succeed, fail, are killed or cancelled, or never start."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import State, StateType, WorkPoolStatus
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelled, Completed, Crashed, Failed, Pending, Running, Scheduled

from connectors.store.folder import FolderStore
from connectors.store.object_store import StoreError, StoreUnavailableError
from flows import sync_batch as flow_module
from flows.cluster.batch_log import Fenced
from flows.cluster.heartbeats import Listener, write_heartbeats
from flows.cluster.worker_batches import batches_on
from flows.config.errors import ClusterLost, SettingsError, TrackerUnreachable
from flows.config.settings import load
from flows.engine.pipeline import RunReport, run_sync
from flows.engine.resources import open_resources
from flows.orchestration.pool_workers import ERRORS, SCANNED, PoolWorkers, error_of, state_of
from flows.orchestration.processes import free_port
from models.runs import RunState
from tests.clocks import VirtualClock
from tests.flows.cluster.fake_cluster import API, DyingStore, FakeCluster
from tests.flows.cluster.test_flows_cluster import MEDIA, asked_twice, in_one_process
from tests.flows.fake_api import FakeApi, open_run_resources, request, rows
from tests.store.memory import MemoryStore

pytestmark = pytest.mark.anyio


_DELETED: State[Any] = Cancelled(name="Deleted")


class _Run(NamedTuple):
    id: UUID
    state: State[Any]
    parameters: dict[str, Any] = {}  # noqa: RUF012 - never changed


class _Pool(NamedTuple):
    status: WorkPoolStatus


@dataclass
class FakePrefect:
    """Prefect's client, and a worker whose flow runs scan in this process; `plan` says how an attempt fares."""

    cluster: FakeCluster
    plan: Callable[[str], State[Any] | None] = lambda _: None
    status: WorkPoolStatus = WorkPoolStatus.READY
    states: dict[UUID, State[Any]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    parameters: list[dict[str, Any]] = field(default_factory=list)
    failures: int = 0
    left: list[_Run] = field(default_factory=list)

    async def create_flow_run_from_deployment(
        self, _: UUID, *, parameters: dict[str, Any], name: str, idempotency_key: str, tags: list[str]
    ) -> _Run:
        self._fail()
        assert idempotency_key.endswith(f"/{name}")
        assert tags == ["gramhouse"]
        self.names.append(name)
        self.parameters.append(parameters)
        run = _Run(uuid4(), Running())
        self.states[run.id] = run.state
        if (ends := self.plan(name)) is _DELETED:
            del self.states[run.id]
        elif ends is not None:
            self.states[run.id] = ends
        else:
            self.cluster.tasks.append(asyncio.create_task(self._scan(run.id, name, parameters["prefix"])))
        return run

    async def _scan(self, run: UUID, name: str, prefix: str) -> None:
        heartbeats = asyncio.create_task(
            write_heartbeats(self.cluster.store, prefix, clock=VirtualClock(), new_id=lambda: str(uuid4()))
        )
        try:
            await self.cluster.scan(prefix, self.cluster.store_of(name, self.cluster.store))
        except ERRORS as error:
            self.states[run] = state_of(error)
        except Exception as error:  # noqa: BLE001 - as Prefect does
            self.states[run] = Crashed(message=str(error))
        else:
            self.states[run] = Completed(message=SCANNED)
        finally:
            heartbeats.cancel()

    async def read_flow_runs(self, *, flow_run_filter: FlowRunFilter, limit: int, offset: int = 0) -> list[_Run]:
        self._fail()
        ids = flow_run_filter.id.any_ if flow_run_filter.id else None
        if ids is None:
            assert flow_run_filter.deployment_id is not None
            assert flow_run_filter.state is not None
            assert flow_run_filter.state.type is not None
            types = flow_run_filter.state.type.any_ or []
            return [run for run in self.left if self.states[run.id].type in types][offset : offset + limit]
        assert len(ids) <= limit == 200
        return [_Run(one, self.states[one]) for one in ids if one in self.states]

    async def read_work_pool(self, name: str) -> _Pool:
        assert name == "batches"
        self._fail()
        return _Pool(self.status)

    async def set_flow_run_state(self, run: UUID, state: State[Any], *, force: bool) -> None:
        assert force
        self.states[run] = state

    def _fail(self) -> None:
        self.failures -= 1
        if self.failures >= 0:
            message = "503 FakeApi Unavailable\nTraceback"
            raise RuntimeError(message)


@asynccontextmanager
async def pooled(folder: Path, service: FakeApi, prefect: FakePrefect, clock: VirtualClock) -> AsyncIterator[Any]:
    ids = count(1)
    store = prefect.cluster.store
    workers = PoolWorkers(prefect, uuid4(), "batches", prefect.cluster.store, "the store", clock=clock)  # type: ignore[arg-type]
    workers.least = 2
    try:
        async with open_run_resources(folder, service) as resources:
            opening = batches_on(
                workers, store, "the store", API, resources.warehouse, clock=clock,
                new_id=lambda: f"shared-{next(ids)}-{id(service)}", say=lambda _: None,
            )  # fmt: skip
            async with opening as batches:
                yield replace(resources, batches=batches)
    finally:
        await workers.cancel_waiting()


async def _sync(folder: Path, service: FakeApi, prefect: FakePrefect) -> tuple[RunReport, list[Any]]:
    async with pooled(folder, service, prefect, VirtualClock()) as resources:
        report = await run_sync(request(folder), resources)
        return report, await rows(resources, MEDIA)


async def test_a_batch_whose_flow_run_is_lost_deleted_or_shut_out_is_submitted_again(tmp_path: Path) -> None:
    service = FakeApi(accounts=6, posts=5)
    fates = [state_of(Fenced("taken")), Crashed(message="gone"), _DELETED]
    ends = {f"runs/00000001/{batch:06}-1": state for batch, state in enumerate(fates, 1)}
    prefect = FakePrefect(FakeCluster(service, MemoryStore()), ends.get)
    report, found = await _sync(tmp_path, service, prefect)
    assert report.state is RunState.COMPLETE
    names = [f"runs/00000001/{batch:06}-{attempt}" for batch in (1, 2, 3) for attempt in (1, 2)]
    assert sorted(prefect.names) == names
    assert found == (await in_one_process(tmp_path / "alone", FakeApi(accounts=6, posts=5)))[0]
    assert asked_twice(service) == 0
    # The parameters of a flow run: no API address and no key.
    assert prefect.parameters[0] == {"store_url": "the store", "prefix": "runs/00000001/000001"}


async def test_the_batch_of_a_process_that_dies_is_continued_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.cluster.worker._PAGES", 3)
    service, store = FakeApi(accounts=4, posts=9), MemoryStore()
    cluster = FakeCluster(
        service, store, lambda name, shared: DyingStore(shared=store) if name.endswith("-1") else shared
    )
    report, found = await _sync(tmp_path, service, FakePrefect(cluster))
    assert report.state is RunState.COMPLETE
    assert found == (await in_one_process(tmp_path / "alone", FakeApi(accounts=4, posts=9)))[0]
    assert 0 < asked_twice(service) <= 2 * (3 + 4)


async def test_a_server_that_is_away_for_a_while_loses_nothing(tmp_path: Path) -> None:
    service = FakeApi(accounts=4, posts=5)
    prefect = FakePrefect(FakeCluster(service, MemoryStore()), failures=4)
    report, found = await _sync(tmp_path, service, prefect)
    assert report.state is RunState.COMPLETE
    assert found == (await in_one_process(tmp_path / "alone", FakeApi(accounts=4, posts=5)))[0]


@pytest.mark.parametrize("status", [WorkPoolStatus.NOT_READY, WorkPoolStatus.PAUSED])
async def test_a_pool_without_workers_fails_the_run_and_cancels_waiting_flow_runs(
    tmp_path: Path, status: WorkPoolStatus
) -> None:
    service = FakeApi(accounts=4, posts=5)
    prefect = FakePrefect(FakeCluster(service, MemoryStore()), lambda _: Pending(), status=status)
    line = r"^no worker of the work pool batches was online for 120 s\. .*Fix: start one \(`prefect worker start"
    with pytest.raises(ClusterLost, match=line):
        await _sync(tmp_path, service, prefect)
    assert {state.type for state in prefect.states.values()} == {StateType.CANCELLED}


async def test_flow_runs_that_a_killed_run_left_waiting_are_cancelled_with_the_first_batch() -> None:
    service, clock = FakeApi(), VirtualClock()
    prefect = FakePrefect(FakeCluster(service, MemoryStore()), lambda _: Running())
    labels = dict[UUID, str]()
    states: dict[str, State[Any]] = {"waiting": Scheduled(), "pending": Pending(), "running": Running()}
    for (name, state), store in product(states.items(), ("the store", "another")):
        run = _Run(uuid4(), state, {"store_url": store})
        prefect.left.append(run)
        prefect.states[run.id] = state
        labels[run.id] = f"{name}, {store}"
    workers = PoolWorkers(prefect, uuid4(), "batches", prefect.cluster.store, "the store", clock=clock)  # type: ignore[arg-type]
    await workers.submit("runs/1/1", key="a/runs/1/1-1")
    cancelled = {labels[run] for run, state in prefect.states.items() if state.type is StateType.CANCELLED}
    assert cancelled == {"waiting, the store", "pending, the store"}
    late = _Run(uuid4(), Scheduled(), {"store_url": "the store"})
    prefect.left.append(late)
    prefect.states[late.id] = late.state
    await workers.submit("runs/1/2", key="a/runs/1/2-1")
    assert prefect.states[late.id].type is StateType.SCHEDULED


async def test_a_flow_run_that_runs_is_a_worker_and_is_not_cancelled() -> None:
    service, clock = FakeApi(), VirtualClock()
    prefect = FakePrefect(FakeCluster(service, MemoryStore()), lambda _: Running(), status=WorkPoolStatus.NOT_READY)
    workers = PoolWorkers(prefect, uuid4(), "batches", prefect.cluster.store, "the store", clock=clock)  # type: ignore[arg-type]
    assert not await workers.are_there()
    await workers.submit("runs/1/1", key="a/runs/1/1-1")
    await clock.sleep(4.9)
    assert not await workers.are_there()
    await clock.sleep(0.2)
    assert await workers.are_there()
    # Without a heartbeat.
    for _ in range(62):
        await clock.sleep(5)
        await workers.are_there()
    assert not await workers.are_there()
    assert [state.name for state in prefect.states.values()] == ["Crashed"]
    await workers.submit("runs/1/1", key="a/runs/1/1-2")
    await workers.cancel_waiting()
    assert [state.name for state in prefect.states.values()] == ["Crashed", "Running"]


async def test_a_flow_run_whose_machine_is_lost_is_ended_and_its_batch_submitted_again(tmp_path: Path) -> None:
    """Prefect shows it as running, and it occupies a slot of the pool."""
    service = FakeApi(accounts=2, posts=5)
    prefect = FakePrefect(FakeCluster(service, MemoryStore()), lambda name: Running() if name.endswith("-1") else None)
    report, found = await _sync(tmp_path, service, prefect)
    assert report.state is RunState.COMPLETE
    assert found == (await in_one_process(tmp_path / "alone", FakeApi(accounts=2, posts=5)))[0]
    assert sorted(state.name or "" for state in prefect.states.values()) == ["Completed", "Crashed"]


async def test_a_process_is_lost_five_minutes_after_its_last_heartbeat() -> None:
    store, clock = MemoryStore(), VirtualClock()
    listener = Listener(store, "runs/1/1", clock=clock)
    assert not await listener.is_gone()
    await clock.sleep(240)
    assert not await listener.is_gone()
    await store.put("runs/1/1/alive", b"first")
    await clock.sleep(60)
    assert not await listener.is_gone()
    asked: list[str] = []
    store.failure = lambda verb, _: asked.append(verb)
    for _ in range(299):
        await clock.sleep(1)
        assert not await listener.is_gone()
    assert asked == ["get"] * 4
    await clock.sleep(1)
    assert await listener.is_gone()


async def test_a_heartbeat_is_written_each_minute() -> None:
    store, clock, ids = MemoryStore(), VirtualClock(), count(1)
    seen: list[tuple[float, bytes]] = []
    store.failure = lambda _, __: seen.append((clock.passed, store.objects.get("runs/1/1/alive", b"")))
    heartbeats = asyncio.create_task(write_heartbeats(store, "runs/1/1", clock=clock, new_id=lambda: str(next(ids))))
    for _ in range(5):
        await clock.sleep(0)
    heartbeats.cancel()
    assert seen[:3] == [(0, b""), (60, b"1"), (120, b"2")]


@pytest.mark.parametrize("error", [SettingsError("no key"), StoreError("no bucket"), Fenced("taken")])
async def test_errors_travel_in_states(error: Exception) -> None:
    found = error_of(state_of(error))
    assert (type(found), str(found)) == (type(error), str(error))


async def test_a_state_without_our_error_is_a_lost_attempt() -> None:
    states: list[State[Any]] = [Crashed(message="gone"), Cancelled(), Failed(message="a bug")]
    lost = [error_of(state) for state in states]
    assert [str(error) for error in lost] == [
        "its flow run is Crashed: gone",
        "its flow run is Cancelled: no reason is given",
        "its flow run is Failed: a bug",
    ]
    assert not any(isinstance(error, ERRORS) for error in lost)
    assert isinstance(error_of(state_of(StoreUnavailableError("away"))), StoreError)


async def test_a_workers_wrong_settings_end_the_run_with_its_line(tmp_path: Path) -> None:
    service = FakeApi()
    prefect = FakePrefect(FakeCluster(service, MemoryStore()), lambda _: state_of(SettingsError("No API key. Fix: x.")))
    with pytest.raises(SettingsError, match=r"^No API key\. Fix: x\.$"):
        await _sync(tmp_path, service, prefect)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({}, "No API address. Fix: "),
        ({"BASE_URL": "https://api.example.com"}, "this worker is for the store None, and the batch is in s3://b/a."),
        ({"BASE_URL": "https://api.example.com", "STORE": "s3://b/other"}, "this worker is for the store s3://b/other"),
    ],
    ids=["no address", "no store", "another store"],
)
async def test_a_worker_sends_its_key_only_where_its_own_settings_say(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], line: str
) -> None:
    """Anyone who may start flow runs can name any store, whose batches can name any address."""
    monkeypatch.setattr(flow_module, "scan_stored", lambda *_: pytest.fail("it asked"))
    for name, value in settings.items():
        monkeypatch.setenv(f"GRAMHOUSE_{name}", value)
    state = await flow_module.sync_batch.fn("s3://b/a", "runs/00000001/000001")
    assert state.is_failed()
    assert state.message
    assert line in state.message


async def test_a_worker_scans_a_batch_of_its_own_store_and_gives_signs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scanned: list[tuple[str, str]] = []
    heartbeat = tmp_path / "store" / "runs" / "1" / "alive"
    given = asyncio.Event()
    put = FolderStore.put

    async def note(store: FolderStore, key: str, data: bytes) -> None:
        await put(store, key, data)
        given.set()

    async def scan(store_url: str, prefix: str) -> None:
        scanned.append((store_url, prefix))
        await given.wait()
        assert heartbeat.exists()

    monkeypatch.setattr(FolderStore, "put", note)
    monkeypatch.setattr(flow_module, "scan_stored", scan)
    url = str(tmp_path / "store")
    monkeypatch.setenv("GRAMHOUSE_BASE_URL", "https://api.example.com")
    monkeypatch.setenv("GRAMHOUSE_STORE", url)
    assert error_of(await flow_module.sync_batch.fn(url, "runs/1")) is None
    assert scanned == [(url, "runs/1")]


async def test_the_error_of_a_scan_is_the_state_of_its_flow_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def scan(_: str, __: str) -> None:
        message = "taken"
        raise Fenced(message)

    monkeypatch.setattr(flow_module, "scan_stored", scan)
    monkeypatch.setenv("GRAMHOUSE_BASE_URL", "https://api.example.com")
    monkeypatch.setenv("GRAMHOUSE_STORE", str(tmp_path))
    state = await flow_module.sync_batch.fn(str(tmp_path), "runs/1")
    assert (state.name, str(error_of(state))) == ("Fenced", "taken")


@pytest.mark.parametrize(
    ("api", "store", "line"),
    [
        (
            None,
            "s3://b/a",
            r"^GRAMHOUSE_ENGINE=work-pool needs a Prefect server, and PREFECT_API_URL is not set\. Fix: ",
        ),
        ("http://127.0.0.1:9/api", None, r"^GRAMHOUSE_STORE is not set, and workers of a work pool need it\. Fix: "),
    ],
)
async def test_missing_requirements_of_a_work_pool_are_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: str | None, store: str | None, line: str
) -> None:
    if api:
        monkeypatch.setenv("PREFECT_API_URL", api)
    else:
        monkeypatch.delenv("PREFECT_API_URL", raising=False)
    await _refused(tmp_path, SettingsError, line, store)


async def test_a_server_that_does_not_answer_leaves_no_empty_warehouse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_server = f"http://127.0.0.1:{free_port()}/api"
    monkeypatch.setenv("PREFECT_API_URL", no_server)
    with temporary_settings({PREFECT_API_URL: no_server}):
        await _refused(tmp_path, TrackerUnreachable, rf"^{no_server} does not answer\. Fix: ", str(tmp_path / "store"))


async def _refused(folder: Path, error: type[Exception], line: str, store: str | None) -> None:
    settings = load(
        base_url="https://api.example.com",
        api_key="k",
        engine="work-pool",
        store=store,
        warehouse=folder / "warehouse.duckdb",
        snapshot=folder / "analytics.duckdb",
    )
    with pytest.raises(error, match=line):
        async with open_resources(settings, "test"):
            pytest.fail("it began")
    assert not settings.warehouse.exists()
