"""The guards of batches on workers, which keep attempts, runs and warehouses apart."""

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from connectors.source.endpoints import ApiRequest, accounts_request
from connectors.source.errors import ApiError
from connectors.store.object_store import StoreError
from connectors.store.opening import open_store
from connectors.warehouse.runs.batch_logs import MergedLog, merged_logs
from connectors.warehouse.runs.progress import cooldowns
from connectors.warehouse.storage.connection import value
from connectors.warehouse.warehouse import Warehouse
from flows.cluster.batch_log import BatchLog, End, Entry, Fenced
from flows.cluster.batch_spec import BatchSpec, KnownBefore, batch_prefix, write_spec
from flows.cluster.loader import Loader
from flows.cluster.shared_run import SharedRun, begin_shared_run, merge_left
from flows.cluster.stop_mark import StopMark, encode_stop, stop_key
from flows.cluster.worker import LoggedScans, Progress, remaining, scan_logged, scan_stored
from flows.config.errors import SettingsError
from flows.engine.batches import Batch, ListedAccount
from flows.engine.run_context import Counters, ScanMode
from models.page_commit import PageCommit, ScopeCooldown
from models.partition import media
from models.runs import Outcome, OutcomeKind
from tests.clocks import START
from tests.flows.cluster.fake_cluster import API
from tests.flows.fake_api import FakeApi, Refusal, open_run_resources, uuid
from tests.store.memory import MemoryStore, refuse

pytestmark = pytest.mark.anyio

RUN = "runs/00000001"
PREFIX = batch_prefix(1, 1)


def spec_of(accounts: int, **changes: Any) -> BatchSpec:  # noqa: ANN401 - fields of BatchSpec
    listed = tuple(ListedAccount(uuid(number), expired=False) for number in range(1, accounts + 1))
    spec = BatchSpec("run-1", START, (), timedelta(hours=12), "sync", ScanMode(), Batch(1, listed), API, KnownBefore())
    return replace(spec, **changes)


async def attempt(store: MemoryStore, service: FakeApi, spec: BatchSpec, name: str = "first") -> None:
    ids = count(1)
    await scan_logged(
        store,
        PREFIX,
        spec,
        service.send,
        clock=service.clock,
        random=lambda: 0.5,
        new_id=lambda: f"{name}-{next(ids)}",
    )


async def entries_of(store: MemoryStore) -> list[Entry]:
    return [entry async for entry in BatchLog(store, PREFIX).read()]


async def outcomes_of(store: MemoryStore) -> list[Outcome]:
    return [one for entry in await entries_of(store) for made in entry.commits for one in made.outcomes]


async def ended(store: MemoryStore) -> End | None:
    return (await entries_of(store))[-1].end


@pytest.fixture
async def warehouse(tmp_path: Path) -> AsyncIterator[Warehouse]:
    async with open_run_resources(tmp_path, FakeApi()) as resources:
        yield resources.warehouse


async def test_the_first_entry_is_kept_and_the_other_attempt_is_fenced_out() -> None:
    store = MemoryStore()
    first, second = BatchLog(store, PREFIX), BatchLog(store, PREFIX)
    await first.append(Entry("first"))
    with pytest.raises(Fenced, match="has another entry 1"):
        await second.append(Entry("second"))
    assert (first.last, second.last) == (1, 0)
    assert [entry.attempt for entry in await entries_of(store)] == ["first"]


@pytest.mark.parametrize(
    ("address", "message"), [(None, "is not set"), ("http://127.0.0.1:9", "is http://127.0.0.1:9,")]
)
async def test_a_worker_sends_its_key_only_to_its_own_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str | None, message: str
) -> None:
    """Whoever can write to the store could otherwise have the key sent to any address."""
    monkeypatch.setenv("GRAMHOUSE_API_KEY", "k" * 20)
    if address is not None:
        monkeypatch.setenv("GRAMHOUSE_BASE_URL", address)
    with socket.create_server(("127.0.0.1", 0)) as thief:
        thief.settimeout(0)
        named = replace(API, base_url=f"http://127.0.0.1:{thief.getsockname()[1]}")
        await write_spec(open_store(str(tmp_path), clock=FakeApi().clock), PREFIX, spec_of(1, api=named))
        with pytest.raises(SettingsError, match=message):
            await scan_stored(str(tmp_path), PREFIX)
        with pytest.raises(BlockingIOError):
            thief.accept()


async def test_a_closed_log_is_scanned_no_further() -> None:
    service, store = FakeApi(2), MemoryStore()
    await attempt(store, service, spec_of(2))
    assert await ended(store) is End.DONE
    asked, written = len(service.requests), len(store.objects)
    await attempt(store, service, spec_of(2), "again")
    assert (len(service.requests), len(store.objects)) == (asked, written)


async def test_an_attempt_sends_no_requests_for_partitions_with_an_outcome_in_the_log() -> None:
    service, store = FakeApi(3), MemoryStore()
    await attempt(store, service, spec_of(3))
    landed = [one for entry in await entries_of(store) for one in entry.commits]
    store.objects.clear()
    await BatchLog(store, PREFIX).append(Entry("first", tuple(one for one in landed if _account(one) != uuid(2))))
    service.requests.clear()
    await attempt(store, service, spec_of(3), "second")
    assert {one.scope for one in service.requests} == {f"selected_account:{uuid(2)}"}
    outcomes = [one.partition for one in await outcomes_of(store)]
    assert len(outcomes) == len(set(outcomes)) == 6


def _account(commit: PageCommit) -> str:
    if commit.checkpoint is not None:
        return commit.checkpoint.partition.account_id
    return commit.outcomes[0].partition.account_id


def test_partitions_with_outcomes_are_removed_from_a_batch() -> None:
    batch = spec_of(3).batch
    outcomes = {media(uuid(1), "posts"), media(uuid(1), "stories"), media(uuid(2), "stories")}
    left = remaining(batch, outcomes)
    assert [(one.account_id, one.surfaces) for one in left.accounts] == [
        (uuid(2), ("posts",)),
        (uuid(3), batch.accounts[2].surfaces),
    ]
    assert remaining(batch, set()) == batch


async def test_a_cooldown_is_in_the_log_before_its_wait_begins() -> None:
    store = MemoryStore()
    scans = LoggedScans(BatchLog(store, PREFIX), spec_of(1), Progress(), "first", Counters())
    await scans.land(PageCommit())
    assert await entries_of(store) == []
    cooldown = ScopeCooldown("a", START + timedelta(hours=1), START)
    await scans.land(PageCommit(cooldown=cooldown))
    [entry] = await entries_of(store)
    assert [commit.cooldown for commit in entry.commits] == [None, cooldown]


class HeldStore(MemoryStore):
    """Holds the first create until `may_fail` is set; then it fails."""

    def __init__(self) -> None:
        super().__init__()
        self.may_fail = asyncio.Event()

    async def create(self, key: str, data: bytes) -> bool:
        if not self.may_fail.is_set():
            await self.may_fail.wait()
            message = "the store is away. Fix: bring it back."
            raise StoreError(message)
        return await super().create(key, data)


async def test_the_entry_after_one_that_could_not_be_written_has_its_commits_first() -> None:
    store = HeldStore()
    scans = LoggedScans(BatchLog(store, PREFIX), spec_of(1), Progress(), "first", Counters())
    commits = [PageCommit(cooldown=ScopeCooldown(scope, START, START)) for scope in "abc"]
    # The first writes, and the others wait for it.
    landings = [asyncio.create_task(scans.land(commit)) for commit in commits]
    await asyncio.sleep(0)
    store.may_fail.set()
    ends = await asyncio.gather(*landings, return_exceptions=True)
    assert [type(end) for end in ends] == [StoreError, type(None), type(None)]
    [entry] = await entries_of(store)
    assert list(entry.commits) == commits


async def test_another_attempt_keeps_the_cooldown_that_the_log_has() -> None:
    service, store = FakeApi(2), MemoryStore()
    cooldown = ScopeCooldown(f"selected_account:{uuid(1)}", START + timedelta(hours=9), START)
    await BatchLog(store, PREFIX).append(Entry("lost", (PageCommit(cooldown=cooldown),)))
    await attempt(store, service, spec_of(2))
    assert {one.scope for one in service.requests} == {f"selected_account:{uuid(2)}"}
    kinds = [one.kind for one in await outcomes_of(store)]
    assert kinds.count(OutcomeKind.DEFERRED) == 2


async def test_a_stop_mark_ends_the_scans_with_its_error_and_closes_the_log() -> None:
    service, store = FakeApi(2, posts=400), MemoryStore()

    def failure(_: ApiRequest) -> None:
        if len(service.requests) == 10:
            store.objects[stop_key(RUN)] = encode_stop(StopMark(stopped))

    refused = FakeApi(failure=lambda _: Refusal(401, "api_key_invalid"))
    with pytest.raises(ApiError) as raised:
        await refused.send(accounts_request(None, 2))
    stopped = raised.value.failure
    service.failure = failure
    await attempt(store, service, spec_of(2))
    assert await ended(store) is End.DONE
    assert 10 <= len(service.requests) < 200
    codes = [one.error_code for one in await outcomes_of(store)]
    assert codes.count("api_key_invalid") == 2


async def test_the_stop_mark_of_an_interrupted_run_ends_the_scans_and_leaves_the_log_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service, store = FakeApi(2, posts=400), MemoryStore()

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("flows.cluster.worker._flush_regularly", never)

    def failure(_: ApiRequest) -> None:
        if len(service.requests) == 10:
            store.objects[stop_key(RUN)] = encode_stop(StopMark())

    service.failure = failure
    await attempt(store, service, spec_of(2))
    assert 10 <= len(service.requests) < 200
    assert await ended(store) is None
    landed = [made.page for entry in await entries_of(store) for made in entry.commits if made.page]
    # Pages that had landed when it was stopped are still written.
    assert len(landed) >= 8


async def test_a_log_is_closed_when_a_run_is_taken_over(warehouse: Warehouse) -> None:
    store, service = MemoryStore(), FakeApi(1)
    await write_spec(store, PREFIX, spec_of(1))
    working = BatchLog(store, PREFIX)
    await working.append(Entry("working"))
    await Loader(store, warehouse, 1, clock=service.clock).drain({}, attempt="takeover")
    with pytest.raises(Fenced):
        await working.append(Entry("working"))
    assert [(entry.attempt, entry.end) for entry in await entries_of(store)] == [
        ("working", None),
        ("takeover", End.SEALED),
    ]
    assert await warehouse.read(merged_logs, 1) == {1: MergedLog(2, is_closed=True)}


class BusyStore(MemoryStore):
    """An attempt writes an entry just before the log is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_busy = False

    async def create(self, key: str, data: bytes) -> bool:
        if self.is_busy:
            self.is_busy = False
            await BatchLog(self, PREFIX, int(key[-6:]) - 1).append(Entry("working"))
        return await super().create(key, data)


async def test_an_entry_that_was_written_while_its_log_was_closed_is_merged(warehouse: Warehouse) -> None:
    store, service = BusyStore(), FakeApi(1)
    await write_spec(store, PREFIX, spec_of(1))
    await BatchLog(store, PREFIX).append(Entry("working"))
    store.is_busy = True
    await Loader(store, warehouse, 1, clock=service.clock).drain({}, attempt="takeover")
    assert [entry.attempt for entry in await entries_of(store)] == ["working", "working", "takeover"]
    assert await warehouse.read(merged_logs, 1) == {1: MergedLog(3, is_closed=True)}


async def test_the_logs_of_all_batches_are_closed(warehouse: Warehouse) -> None:
    store, service = MemoryStore(), FakeApi(1)
    for batch in (1, 2, 3):
        await write_spec(store, batch_prefix(1, batch), spec_of(1))
    await Loader(store, warehouse, 1, clock=service.clock).drain({2: MergedLog(5, is_closed=True)}, attempt="takeover")
    assert sorted(key for key in store.objects if key[-1].isdigit()) == [f"{RUN}/{batch:06}/000001" for batch in (1, 3)]


async def begun(store: MemoryStore, warehouse: Warehouse, service: FakeApi) -> SharedRun:
    ids = count(1)
    return await begin_shared_run(
        store, "the store", warehouse, clock=service.clock, new_id=lambda: f"id-{next(ids)}", say=lambda _: None
    )


async def test_a_resumed_runs_old_workers_stop(warehouse: Warehouse) -> None:
    store, service = MemoryStore(), FakeApi(1)
    await begun(store, warehouse, service)
    assert stop_key(RUN) not in store.objects
    second = await begun(store, warehouse, service)
    assert second.sequence == 2
    assert store.objects[stop_key(RUN)] == encode_stop(StopMark())
    assert f"{RUN}/end" in store.objects


async def test_a_store_belongs_to_one_warehouse(warehouse: Warehouse) -> None:
    store = MemoryStore({"gramhouse.json": b'{"warehouse": "another"}'})
    with pytest.raises(StoreError, match=r"belongs to another warehouse\. Fix:"):
        await begun(store, warehouse, FakeApi(1))


class LaggingStore(MemoryStore):
    """Lists nothing yet."""

    async def list(self, prefix: str) -> list[str]:
        del prefix
        return []


async def test_a_run_that_died_at_its_start_is_taken_over_before_it_is_listed(warehouse: Warehouse) -> None:
    store = LaggingStore({f"{RUN}/run": b"died"})
    assert (await begun(store, warehouse, FakeApi(1))).sequence == 2
    assert f"{RUN}/end" in store.objects


class HidingStore(LaggingStore):
    """Another run begins between the check and the create."""

    async def get(self, key: str) -> bytes | None:
        return None if key.endswith("/run") else await super().get(key)


async def test_two_runs_cannot_have_the_same_number(warehouse: Warehouse) -> None:
    store = HidingStore({f"{RUN}/run": b"another"})
    with pytest.raises(StoreError, match=r"another run has just begun in the store the store\. Fix:"):
        await begun(store, warehouse, FakeApi(1))
    assert store.objects[f"{RUN}/run"] == b"another"


async def test_a_run_unknown_to_the_warehouse_is_ended_and_not_merged(warehouse: Warehouse) -> None:
    """A warehouse restored from a backup may have merged newer pages before."""
    store, service = MemoryStore({f"{RUN}/run": b"before the backup"}), FakeApi(2)
    await write_spec(store, PREFIX, spec_of(2))
    await attempt(store, service, spec_of(2))
    assert (await begun(store, warehouse, service)).sequence == 2
    assert await warehouse.transact(lambda c: value(c.db, "SELECT count(*) FROM core.media")) == 0
    assert {f"{RUN}/stop", f"{RUN}/end"} <= set(store.objects)


async def test_the_objects_of_a_run_are_removed_a_week_after_its_end(warehouse: Warehouse) -> None:
    store, service = MemoryStore(), FakeApi(1)
    for days, kept in ((0, {1}), (6, {1, 2}), (2, {2, 3})):
        service.clock.passed += timedelta(days=days).total_seconds()
        run = await begun(store, warehouse, service)
        await run.close(now=service.clock.now())
        assert {int(key.split("/")[1]) for key in store.objects if key.startswith("runs/")} == kept


async def test_a_removal_that_fails_is_completed_by_a_later_run(warehouse: Warehouse) -> None:
    def refuse(verb: str, key: str) -> None:
        if (verb, key) == ("delete", f"{RUN}/run"):
            message = "the store is away. Fix: bring it back."
            raise StoreError(message)

    store, service = MemoryStore(), FakeApi(1)
    for failure in (store.failure, refuse, store.failure):
        store.failure = failure
        run = await begun(store, warehouse, service)
        service.clock.passed += timedelta(days=8).total_seconds()
        await run.close(now=service.clock.now())
    assert not await store.list(f"{RUN}/")


async def test_the_key_is_in_no_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAMHOUSE_API_KEY", "a-canary-key")
    service, store = FakeApi(1), MemoryStore()
    await write_spec(store, PREFIX, spec_of(1))
    await attempt(store, service, spec_of(1))
    assert all(b"canary" not in data for data in store.objects.values())


async def left_behind(store: MemoryStore, warehouse: Warehouse, service: FakeApi) -> None:
    """A run whose worker lands a batch and a cooldown, and which dies before it merges."""
    run = await begun(store, warehouse, service)
    prefix = batch_prefix(run.sequence, 1)
    await write_spec(store, prefix, spec_of(2))
    cooldown = ScopeCooldown("a scope", START + timedelta(hours=9), START)
    await BatchLog(store, prefix).append(Entry("worker", (PageCommit(cooldown=cooldown),)))
    await attempt(store, service, spec_of(2))


async def merged_left(store: MemoryStore, warehouse: Warehouse, service: FakeApi) -> list[str]:
    said: list[str] = []
    await merge_left(store, "the store", warehouse, clock=service.clock, new_id=lambda: "local", say=said.append)
    return said


async def test_a_local_run_first_merges_pages_left_by_workers(warehouse: Warehouse) -> None:
    store, service = MemoryStore(), FakeApi(2)
    await left_behind(store, warehouse, service)
    assert await merged_left(store, warehouse, service) == ["Merging what run 1 left in the store the store."]
    assert await warehouse.transact(lambda c: value(c.db, "SELECT count(*) FROM core.media")) == 6
    assert await warehouse.read(cooldowns, now=START) == {"a scope": START + timedelta(hours=9)}
    assert await merged_left(MemoryStore(failure=refuse), warehouse, service) == []


async def test_pages_that_workers_left_in_another_store_are_discarded(warehouse: Warehouse) -> None:
    store, service, other = MemoryStore(), FakeApi(2), MemoryStore()
    await left_behind(store, warehouse, service)
    [said] = await merged_left(other, warehouse, service)
    assert said.startswith(
        "Discarded the pages that run 1 left in a shared store, because the store is a different store."
    )
    assert other.objects == {}
    # Merged by a later run, these pages would pass for newer than that of the run between.
    assert (await begun(store, warehouse, service)).sequence == 2
    assert await warehouse.transact(lambda c: value(c.db, "SELECT count(*) FROM core.media")) == 0
