import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import duckdb
import pytest

from connectors.state import database
from connectors.state.inbox import Inbox
from connectors.warehouse.merge import merge as merge_module
from connectors.warehouse.merge.merge import merge
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.snapshot.publish import publish
from connectors.warehouse.storage.connection import Connection, connect, value
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.holder import holder
from flows.engine import warehouse as writing
from flows.engine.warehouse import Warehouse, open_warehouse
from models.page_commit import Landing, PageCommit
from models.partition import media
from tests.landed import unmerged
from tests.warehouse.rig import T0, Scan, at, refusal

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def opened(path: Path, merge_bytes: int = 10**9) -> Any:  # noqa: ANN401 - an async context manager
    return open_warehouse(path, "gramhouse sync", now=T0, merge_bytes=merge_bytes, pause=lambda _: None)


def ask(query: str) -> Callable[[Connection], Any]:
    return lambda connection: value(connection.db, query)


def page(number: int) -> PageCommit:
    return Scan(media(f"account-{number}", "posts"), f"w{number}", T0).page([{"id": str(number)}], at(1), last=True)


def unwritable() -> PageCommit:
    """Return a landing that does not fit on the small disk."""
    item = {"id": "unwritable", "caption": "x" * 2_000_000}
    return Scan(media("account-0", "posts"), "w0", T0).page([item], at(1), last=True)


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_PRAGMAS", (*database._PRAGMAS, "max_page_count = 60"))  # noqa: SLF001


class Gate:
    """Blocks the writer's thread until it is opened."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._open = threading.Event()
        self._busy = asyncio.create_task(warehouse.write(self._wait))

    def _wait(self, _: Connection) -> None:
        assert self._open.wait(timeout=30)

    async def open(self) -> None:
        self._open.set()
        await self._busy


async def turn() -> None:
    """Let every task run until it waits for the writer's thread."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_many_land_at_once_and_each_is_durable_and_numbered(path: Path) -> None:
    async with opened(path) as warehouse:
        await asyncio.gather(*(warehouse.land(page(n)) for n in range(600)))
        assert sorted(one.seq for one in await warehouse.read(unmerged)) == list(range(1, 601))
    async with opened(path) as warehouse:
        assert warehouse.recovered_runs == ("run-1",)
        assert await warehouse.read(ask("SELECT merged_seq FROM ops.warehouse")) == 600
        await warehouse.land(page(600))
        assert [one.seq for one in await warehouse.read(unmerged)] == [601]


@pytest.mark.usefixtures("small_disk")
async def test_landings_that_arrive_together_share_a_commit_and_its_failure(path: Path) -> None:
    async with opened(path) as warehouse:
        landings = [page(1), page(2), unwritable(), page(3)]
        ended = await asyncio.gather(*map(warehouse.land, landings), return_exceptions=True)
        assert all(isinstance(error, WarehouseUnusable) and "The disk is full" in str(error) for error in ended)
        assert len(str(ended[0]).splitlines()) == 1
        assert await warehouse.read(unmerged) == []
        await asyncio.gather(*map(warehouse.land, [page(1), page(2)]))
        assert len(await warehouse.read(unmerged)) == 2


async def test_a_cancelled_waiter_does_not_affect_others(path: Path) -> None:
    async with opened(path) as warehouse:
        gate = Gate(warehouse)
        tasks = [asyncio.create_task(warehouse.land(page(n))) for n in range(3)]
        await turn()
        tasks[1].cancel()
        await turn()
        assert [task.done() for task in tasks] == [False, True, False]
        await gate.open()
        await asyncio.gather(tasks[0], tasks[2])
        assert len(await warehouse.read(unmerged)) == 3


async def test_work_is_finished_if_its_caller_is_cancelled(path: Path) -> None:
    async with opened(path) as warehouse:
        gate = Gate(warehouse)
        task = asyncio.create_task(warehouse.write(ask("INSERT INTO ops.hide_salt VALUES ('s')")))
        await turn()
        task.cancel()
        await gate.open()
        assert await warehouse.write(ask("SELECT count(*) FROM ops.hide_salt")) == 1


class HeldMerge:
    """Blocks merges until it is opened."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._open = threading.Event()
        self._begun = threading.Event()
        patch.setattr(merge_module, "merge", self._merge)

    def _merge(self, connection: Connection, batch: list[Landing]) -> MergeStats:
        self._begun.set()
        counts = merge(connection, batch)
        assert self._open.wait(timeout=30)
        return counts

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self._begun.wait, 30)

    def open(self) -> None:
        self._open.set()


async def test_pages_that_land_during_a_merge_are_durable_and_wait_for_the_next_merge(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(path) as warehouse:
        await warehouse.land(page(1))
        held = HeldMerge(monkeypatch)
        merging = asyncio.create_task(warehouse.merge())
        await held.has_begun()
        await warehouse.land(page(2))
        assert [one.seq for one in await warehouse.read(unmerged)] == [1, 2]
        held.open()
        assert await merging == MergeStats(added=1)
        assert [one.seq for one in await warehouse.read(unmerged)] == [2]


async def test_checkpoints_can_be_read_at_any_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scans = [Scan(media(f"account-{n}", "posts"), f"w{n}", T0) for n in range(3)]
    names = [scan.partition.account_id for scan in scans]

    async def known() -> dict[str, str | None]:
        found = await warehouse.checkpoints(names)
        return {partition.account_id: checkpoint.cursor for partition, checkpoint in found.items()}

    async with opened(path) as warehouse:
        await warehouse.land(scans[0].page([], at(1)))
        await warehouse.merge()
        await warehouse.land(scans[1].page([], at(1)))
        held = HeldMerge(monkeypatch)
        merging = asyncio.create_task(warehouse.merge())
        await held.has_begun()
        await asyncio.gather(*(warehouse.land(scan.page([], at(2))) for scan in scans[1:]))
        expected = {"account-0": "w0/1", "account-1": "w1/2", "account-2": "w2/1"}
        assert await known() == expected
        held.open()
        await merging
        assert await known() == expected
        await warehouse.merge()
        assert await known() == expected
        assert await warehouse.checkpoints(names, "backfill") == {}
        assert await warehouse.checkpoints([""]) == {}


async def test_landed_pages_are_merged_once_they_reach_the_limit(path: Path) -> None:
    size = len(page(1).page.body)  # type: ignore[union-attr]
    async with opened(path, merge_bytes=2 * size) as warehouse:
        for number in range(1, 7):
            await warehouse.land(page(number))
        await warehouse.wait_until_idle()
        assert await warehouse.write(ask("SELECT count(*) FROM core.media")) >= 2
        assert await warehouse.merge() == MergeStats(added=6)
        assert await warehouse.read(unmerged) == []


async def test_a_long_log_is_written_into_the_file_between_two_merges(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = path.with_name(path.name + ".wal")
    async with opened(path) as warehouse:
        await warehouse.land(page(1))
        await warehouse.merge()
        assert log.stat().st_size
        monkeypatch.setattr(writing, "_LOG_BYTES", 1)
        await warehouse.land(page(2))
        await warehouse.merge()
        assert not log.exists()
        assert await warehouse.write(ask("SELECT count(*) FROM core.media")) == 2


async def test_a_slow_merge_slows_the_landing_once_as_much_again_has_landed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(page(1).page.body)  # type: ignore[union-attr]
    held = HeldMerge(monkeypatch)
    async with opened(path, merge_bytes=2 * size) as warehouse:
        for number in range(1, 5):
            await warehouse.land(page(number))
        late = asyncio.create_task(warehouse.land(page(5)))
        await held.has_begun()
        await turn()
        assert not late.done()
        held.open()
        await late


def on_a_full_disk(*_: object) -> MergeStats:
    message = "IO Error: No space left on device"
    raise duckdb.IOException(message)


async def test_the_error_of_a_merge_is_raised_by_the_next_landing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "merge", on_a_full_disk)
    async with opened(path, merge_bytes=1) as warehouse:
        await warehouse.land(page(1))
        with pytest.raises(WarehouseUnusable, match="The disk is full"):
            await warehouse.land(page(2))
        monkeypatch.undo()
        await warehouse.land(page(3))
        assert await warehouse.merge() == MergeStats(added=2)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (duckdb.IOException("IO Error: No space left on device"), "The disk is full"),
        (duckdb.OutOfMemoryException("Out of Memory Error: failed to pin block"), "Fix: free memory"),
    ],
)
def test_an_error_of_the_merge_of_an_opening_is_one_line(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: duckdb.Error, reason: str
) -> None:
    async def opening(*landings: PageCommit) -> None:
        async with opened(path) as warehouse:
            await asyncio.gather(*map(warehouse.land, landings))

    asyncio.run(opening(page(1)))
    monkeypatch.setattr(merge_module, "merge", Mock(side_effect=error))
    assert reason in refusal(lambda: asyncio.run(opening()))
    monkeypatch.undo()
    asyncio.run(opening())
    with connect(path) as connection:
        assert value(connection.db, "SELECT count(*) FROM core.media") == 1


async def test_a_merge_that_runs_out_of_memory_is_repeated_with_more_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[str] = []

    def starved(connection: Connection, batch: list[Landing]) -> MergeStats:
        counts = merge(connection, batch)
        limits.append(ask("SELECT current_setting('memory_limit')")(connection))
        if len(limits) == 1:
            message = "failed to pin block"
            raise duckdb.OutOfMemoryException(message)
        return counts

    monkeypatch.setattr(merge_module, "merge", starved)
    async with opened(path) as warehouse:
        await warehouse.land(page(1))
        assert await warehouse.merge() == MergeStats(added=1)
        assert len(limits) == len(set(limits)) == 2
        assert await warehouse.write(ask("SELECT count(*) FROM core.media")) == 1


async def test_a_merge_that_begins_while_the_warehouse_is_closed_is_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    real = Inbox.land

    def held(self: Inbox, commits: Sequence[PageCommit]) -> int:
        begun.set()
        assert go_on.wait(timeout=30)
        return real(self, commits)

    monkeypatch.setattr(Inbox, "land", held)
    async with opened(path, merge_bytes=1) as warehouse:
        landing = asyncio.create_task(warehouse.land(page(1)))
        assert await asyncio.to_thread(begun.wait, 30)
        landing.cancel()
        asyncio.get_running_loop().call_soon(go_on.set)
    async with opened(path) as warehouse:
        assert warehouse.recovered_runs == ()
        assert await warehouse.write(ask("SELECT count(*) FROM core.media")) == 1


DIES = """
import asyncio, os, sys
from pathlib import Path
from tests.warehouse.test_warehouse_warehouse import opened, page

async def main():
    async with opened(Path(sys.argv[1])) as warehouse:
        await warehouse.land(page(1))
        await warehouse.merge()
        assert warehouse._log_bytes() > 0
        os._exit(9)

asyncio.run(main())
"""


async def test_a_killed_first_run_loses_nothing_if_the_path_is_a_link_to_a_new_file(tmp_path: Path) -> None:
    target, link = tmp_path / "disk" / "target.duckdb", tmp_path / "warehouse.duckdb"
    target.parent.mkdir()
    link.symlink_to(target)
    command = [sys.executable, "-c", DIES, str(link)]
    assert (await asyncio.to_thread(subprocess.run, command, cwd=ROOT, check=False)).returncode == 9
    for path in (target, link):
        async with opened(path) as warehouse:
            assert await warehouse.read(ask("SELECT count(*) FROM core.media")) == 1


async def test_a_failed_transaction_is_rolled_back_and_reported_in_one_line(path: Path) -> None:
    def spoil(connection: Connection) -> None:
        connection.db.execute("INSERT INTO ops.hide_salt VALUES ('s')")
        connection.db.execute("SELECT nothing\nFROM nowhere")

    async with opened(path) as warehouse:
        with pytest.raises(WarehouseUnusable, match="nowhere") as raised:
            await warehouse.write(spoil)
        assert "\n" not in str(raised.value)
        assert "Traceback" not in str(raised.value)
        assert await warehouse.write(ask("SELECT count(*) FROM ops.hide_salt")) == 0


async def test_cancelled_while_it_closes_it_still_closes(path: Path) -> None:
    entered = asyncio.Event()
    gates: list[Gate] = []

    async def work() -> None:
        async with opened(path) as warehouse:
            gates.append(Gate(warehouse))
            entered.set()

    task = asyncio.create_task(work())
    await entered.wait()
    await turn()
    task.cancel()
    await turn()
    await gates[0].open()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with opened(path):
        pass


async def test_cancelled_while_it_opens_it_leaves_the_file_shut(path: Path) -> None:
    async def work() -> None:
        async with opened(path):
            raise AssertionError

    task = asyncio.create_task(work())
    await turn()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert holder(path) is None
    async with opened(path) as warehouse:
        await warehouse.land(page(1))


async def test_the_warehouse_is_never_overwritten_by_its_snapshot(path: Path) -> None:
    async with opened(path) as warehouse:
        await warehouse.land(page(1))
        published = partial(warehouse.alone, publish, at=T0, version="1")
        with pytest.raises(WarehouseUnusable, match="is the warehouse itself"):
            await published(path.parent / "." / path.name)
        assert await published(path.with_name("analytics.duckdb")) > 0
        assert len(await warehouse.read(unmerged)) == 1
