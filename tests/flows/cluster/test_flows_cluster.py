"""Batches on workers have the same result as in one process, whichever worker or run dies."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from connectors.source.endpoints import ApiRequest
from connectors.source.errors import client_error
from connectors.store.object_store import ObjectStore, StoreError
from flows.cluster.batch_log import BatchLog, Entry
from flows.cluster.batch_spec import batch_prefix
from flows.cluster.stop_mark import StopMark, encode_stop, stop_key
from flows.config.errors import ClusterLost
from flows.engine.pipeline import run_sync
from flows.engine.run_context import RunResources
from models.runs import OutcomeKind, RunState
from tests.flows.cluster.fake_cluster import DyingStore, FakeCluster, open_cluster_resources
from tests.flows.fake_api import FakeApi, Refusal, account_of, cursor_of, is_posts, open_run_resources, request, rows
from tests.store.memory import MemoryStore

if TYPE_CHECKING:
    from flows.reporting.run_report import RunReport

pytestmark = pytest.mark.anyio

MEDIA = "SELECT account_id, surface, media_id, caption FROM core.media ORDER BY ALL"
OUTCOMES = "SELECT account_id, surface, outcome, items FROM core.run_outcomes ORDER BY ALL"


async def content(resources: RunResources) -> tuple[list[Any], list[Any]]:
    return await rows(resources, MEDIA), await rows(resources, OUTCOMES)


async def in_one_process(folder: Path, service: FakeApi) -> tuple[list[Any], list[Any]]:
    folder.mkdir()  # noqa: ASYNC240
    async with open_run_resources(folder, service) as resources:
        await run_sync(request(folder), resources)
        return await content(resources)


def asked_twice(service: FakeApi) -> int:
    return len(service.requests) - len(set(service.requests))


async def test_a_cluster_has_the_same_result_as_one_process(tmp_path: Path) -> None:
    service, store = FakeApi(accounts=9, posts=7, expired=frozenset({4})), MemoryStore()
    cluster = FakeCluster(service, store)
    async with open_cluster_resources(tmp_path, service, cluster) as resources:
        report = await run_sync(request(tmp_path), resources)
        found = await content(resources)
    assert len(cluster.submitted) == 5
    assert (report.state, report.pages, report.requests) == (
        RunState.COMPLETE,
        len(service.requests),
        len(service.requests),
    )
    assert report.outcomes[OutcomeKind.SKIPPED] == 2
    assert found == await in_one_process(tmp_path / "alone", FakeApi(accounts=9, posts=7, expired=frozenset({4})))
    assert await store.get("runs/00000001/end")


async def test_a_second_run_finds_nothing_new_and_has_the_next_number(tmp_path: Path) -> None:
    service, store = FakeApi(accounts=5, posts=7), MemoryStore()
    for number in (1, 2):
        async with open_cluster_resources(tmp_path, service, FakeCluster(service, store)) as resources:
            report = await run_sync(request(tmp_path), resources)
        assert report.state is RunState.COMPLETE
        assert report.media.untouched == (number == 2)
        assert await store.get(f"runs/{number:08}/end")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("entries", [0, 1, 2])
async def test_a_lost_worker_is_replaced_and_nothing_doubles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int, *, after: bool
) -> None:
    """With an entry every 3 landings, only pages in no entry are requested again."""
    monkeypatch.setattr("flows.cluster.worker._PAGES", 3)
    service, store = FakeApi(accounts=4, posts=9), MemoryStore()

    def store_of(key: str, shared: ObjectStore) -> ObjectStore:
        return DyingStore(shared=store, entries=entries, after=after) if key.endswith("-1") else shared

    cluster = FakeCluster(service, store, store_of)
    async with open_cluster_resources(tmp_path, service, cluster) as resources:
        report = await run_sync(request(tmp_path), resources)
        found = await content(resources)
    assert report.state is RunState.COMPLETE
    assert sorted(key.partition("/")[2] for key in cluster.submitted) == [
        f"{batch_prefix(1, batch)}-{attempt}" for batch in (1, 2) for attempt in (1, 2)
    ]
    assert found == await in_one_process(tmp_path / "alone", FakeApi(accounts=4, posts=9))
    # For each lost worker: pages waiting for their entry, and those in flight.
    assert asked_twice(service) <= 2 * (3 + 4)
    assert report.items == 4 + 4 * 9


async def test_a_batch_that_kills_every_worker_ends_the_run_and_the_next_resumes(tmp_path: Path) -> None:
    service, store = FakeApi(accounts=4, posts=9), MemoryStore()
    cluster = FakeCluster(service, store, lambda _, __: DyingStore(shared=store, entries=0))
    with pytest.raises(ClusterLost, match=r"3 attempts ended without a result.*Fix: look for the cause"):
        async with open_cluster_resources(tmp_path, service, cluster) as resources:
            await run_sync(request(tmp_path), resources)
    said: list[str] = []
    async with open_cluster_resources(tmp_path, service, FakeCluster(service, store), said) as resources:
        report = await run_sync(request(tmp_path), resources, say=said.append)
        found = await rows(resources, MEDIA)
    assert said[0] == "Merging what run 1 left in the store the store."
    assert report.state is RunState.COMPLETE
    assert report.resumed_runs
    assert found == (await in_one_process(tmp_path / "alone", FakeApi(accounts=4, posts=9)))[0]


async def test_one_of_two_concurrent_attempts_is_fenced_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.cluster.worker._PAGES", 2)
    service, store = FakeApi(accounts=2, posts=9), MemoryStore()
    cluster = FakeCluster(service, store)
    doubles: list[asyncio.Task[None]] = []
    submit = cluster.submit

    def twice(work: object, url: str, prefix: str, *, key: str, pure: bool) -> object:
        doubles.append(asyncio.create_task(cluster.scan(prefix, store)))
        return submit(work, url, prefix, key=key, pure=pure)

    monkeypatch.setattr(cluster, "submit", twice)
    async with open_cluster_resources(tmp_path, service, cluster) as resources:
        report = await run_sync(request(tmp_path), resources)
        found = await content(resources)
    ended = await asyncio.gather(*doubles, *cluster.tasks, return_exceptions=True)
    assert [type(one).__name__ for one in ended].count("Fenced") >= 1
    assert report.state is RunState.COMPLETE
    assert found == await in_one_process(tmp_path / "alone", FakeApi(accounts=2, posts=9))


async def test_a_cooldown_outlives_its_worker(tmp_path: Path) -> None:
    """The first attempt gets a cooldown and dies; the second sends no request for that account."""
    service, store = FakeApi(accounts=2, posts=3), MemoryStore()

    def failure(request: ApiRequest) -> Refusal | None:
        return Refusal(429, "rate_limited", 10_000_000) if is_posts(request, 1) else None

    def has_cooldown(entry: Entry) -> bool:
        return any(commit.cooldown for commit in entry.commits)

    service.failure = failure
    dying = DyingStore(shared=store, entries=0, after=True, counts=has_cooldown)
    cluster = FakeCluster(
        service,
        store,
        lambda key, shared: dying if key.endswith("-1") else shared,
    )
    async with open_cluster_resources(tmp_path, service, cluster) as resources:
        report = await run_sync(request(tmp_path), resources)
    # Its stories, which are the same scope, came first.
    assert report.outcomes[OutcomeKind.DEFERRED] == 1
    assert sum(is_posts(one, 1) for one in service.requests) == 1
    again = FakeCluster(service, store)
    async with open_cluster_resources(tmp_path, service, again) as resources:
        report = await run_sync(request(tmp_path), resources)
    assert report.outcomes[OutcomeKind.DEFERRED] == 2
    assert sum(is_posts(one, 1) for one in service.requests) == 1


async def test_an_error_that_stops_the_run_stops_every_batch(tmp_path: Path) -> None:
    service, store = FakeApi(accounts=8, posts=99), MemoryStore()
    service.failure = lambda request: (
        Refusal(401, "api_key_invalid") if is_posts(request, 1) and cursor_of(request) else None
    )
    cluster = FakeCluster(service, store)
    async with open_cluster_resources(tmp_path, service, cluster) as resources:
        report = await run_sync(request(tmp_path), resources)
    assert report.state is RunState.FAILED
    assert report.stopped_by is not None
    assert report.stopped_by.code == "api_key_invalid"
    assert report.outcomes.total == 1 + 2 * report.accounts
    assert await store.get("runs/00000001/stop")


async def test_an_interrupted_run_is_drained_and_its_attempts_are_shut_out(tmp_path: Path) -> None:
    service, store = FakeApi(accounts=4, posts=9), MemoryStore()
    cluster = FakeCluster(service, store)
    begun = asyncio.Event()

    def failure(request: ApiRequest) -> None:
        if account_of(request) == 3:
            begun.set()

    service.failure = failure

    async def interrupted() -> None:
        async with open_cluster_resources(tmp_path, service, cluster) as resources:
            await run_sync(request(tmp_path), resources)

    run = asyncio.create_task(interrupted())
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    await asyncio.gather(*cluster.tasks, return_exceptions=True)
    service.failure = lambda _: None
    async with open_cluster_resources(tmp_path, service, FakeCluster(service, store)) as resources:
        report = await run_sync(request(tmp_path), resources)
        found = await rows(resources, MEDIA)
        logs = await rows(resources, "SELECT run_sequence, batch, is_closed FROM ops.batch_logs ORDER BY ALL")
    assert report.state is RunState.COMPLETE
    assert found == (await in_one_process(tmp_path / "alone", FakeApi(accounts=4, posts=9)))[0]
    assert logs[0] == (1, 0, True) or logs[0][0] == 2


async def test_a_store_of_another_warehouse_is_refused(tmp_path: Path) -> None:
    service, store = FakeApi(accounts=1, posts=1), MemoryStore()
    async with open_cluster_resources(tmp_path, service, FakeCluster(service, store)) as resources:
        await run_sync(request(tmp_path), resources)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(StoreError, match=r"belongs to another warehouse\. Fix:"):
        async with open_cluster_resources(other, service, FakeCluster(service, store)):
            pass


async def test_a_store_that_fails_ends_the_run_with_its_line(tmp_path: Path) -> None:
    service, store = FakeApi(accounts=4, posts=9), MemoryStore()

    def failure(verb: str, key: str) -> None:
        if verb == "get" and key.endswith("000001"):
            message = "the store is away. Fix: bring it back."
            raise StoreError(message)

    cluster = FakeCluster(service, store)

    async def failing() -> None:
        async with open_cluster_resources(tmp_path, service, cluster) as resources:
            store.failure = failure
            await run_sync(request(tmp_path), resources)

    with pytest.raises(StoreError, match=r"is away\. Fix"):
        await failing()
    store.failure = lambda _, __: None
    async with open_cluster_resources(tmp_path, service, FakeCluster(service, store)) as resources:
        report: RunReport = await run_sync(request(tmp_path), resources)
    assert report.state is RunState.COMPLETE


async def interrupted(folder: Path, service: FakeApi, store: MemoryStore) -> None:
    """Leave a run whose batches have all landed and nothing is merged."""
    cluster = FakeCluster(service, store)

    def failure(verb: str, key: str) -> None:
        # What is read by the loader, whose key is the next entry's; workers write theirs.
        if verb == "get" and key.endswith("000001"):
            message = "killed"
            raise StoreError(message)

    async def run() -> None:
        async with open_cluster_resources(folder, service, cluster) as resources:
            await run_sync(request(folder), resources)

    worker = MemoryStore(store.objects)
    cluster.store_of = lambda _, __: worker
    store.failure = failure
    with pytest.raises(StoreError, match="killed"):
        await run()
    await asyncio.gather(*cluster.tasks, return_exceptions=True)
    store.failure = lambda _, __: None
    store.objects.pop("runs/00000001/stop", None)
    for prefix in ("runs/00000001/000001", "runs/00000001/000002"):
        if f"{prefix}/batch" in store.objects:
            await cluster.scan(prefix, worker)


async def test_a_run_that_is_not_in_the_store_is_reported_as_lost(tmp_path: Path) -> None:
    service, store = FakeApi(accounts=4, posts=5), MemoryStore()
    await interrupted(tmp_path, service, store)
    said: list[str] = []
    async with open_cluster_resources(tmp_path, service, FakeCluster(service, MemoryStore()), said) as resources:
        report = await run_sync(request(tmp_path), resources)
    assert report.state is RunState.COMPLETE
    assert "is not in the store the store: its pages that were not merged are fetched again" in said[0]


async def test_a_batch_that_begins_after_the_stop_mark_asks_nothing(tmp_path: Path) -> None:
    service, store = FakeApi(accounts=4, posts=5), MemoryStore()
    await interrupted(tmp_path, service, store)
    store.objects = {key: data for key, data in store.objects.items() if not key.endswith("/000001/000001")}
    refusal = client_error("accounts.media.list", "timeout", "No.").failure
    for mark, outcomes in ((StopMark(), 0), (StopMark(refusal), 4)):
        objects = {key: data for key, data in store.objects.items() if "/000001/0" not in key}
        other = MemoryStore({**objects, stop_key("runs/00000001"): encode_stop(mark)})
        asked = len(service.requests)
        await FakeCluster(service, other).scan("runs/00000001/000001", other)
        assert len(service.requests) == asked
        log = [entry async for entry in BatchLog(other, "runs/00000001/000001").read()]
        assert sum(len(commit.outcomes) for entry in log for commit in entry.commits) == outcomes


async def test_a_cluster_without_workers_ends_the_run_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, store = FakeApi(accounts=4, posts=9), MemoryStore()
    cluster = FakeCluster(service, store)

    async def never(_: str, __: object) -> None:
        await asyncio.Event().wait()

    async def none() -> dict[str, int]:
        return {}

    monkeypatch.setattr(cluster, "scan", never)
    monkeypatch.setattr(cluster, "nthreads", none)
    with pytest.raises(ClusterLost, match=r"no Dask worker was available for 120 s.*Fix: start the scheduler"):
        async with open_cluster_resources(tmp_path, service, cluster) as resources:
            await run_sync(request(tmp_path), resources)
    for task in cluster.tasks:
        task.cancel()
    await asyncio.gather(*cluster.tasks, return_exceptions=True)
