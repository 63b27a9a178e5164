"""The state machine: land, merge, kill, resume and publish in any order, compared with a model."""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from connectors.warehouse.maintenance.compact import compact
from connectors.warehouse.maintenance.rebuild import rebuild_stored
from connectors.warehouse.snapshot.publish import publish, save_published
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.checkpoint import Checkpoint, RunKind, ScanState
from models.incremental import SyncMode
from models.mapping import BUILT_IN
from models.partition import Partition
from tests.model.recent import Feed
from tests.simulation.crashes import Crash, Where
from tests.simulation.disk import Disk
from tests.simulation.loop import Killed
from tests.stateful.compare import assert_drifting_column, assert_equal, landed, outcomes, progress
from tests.stateful.model import Model, Row
from tests.stateful.pages import FEED, RUN_KINDS, FakeFeed, FeedChange, Page, batches, days, feed_changes
from tests.stateful.process import Process
from tests.stateful.scans import PendingPage, Reader, depth_of, load_checkpoint, next_page, reader
from tests.stateful.snapshot_reader import SnapshotReader
from tests.warehouse.rig import T0

_NEVER = 10**9
MODES: tuple[SyncMode, ...] = ("incremental", "incremental", "incremental", "full_refresh")
# Files in memory: these tests do not depend on the disk.
_MEMORY = Path("/dev/shm")


def faults(most: int) -> st.SearchStrategy[Crash | None]:
    """Often no fault; else a kill or a full disk at one of the first `most` statements, or at a commit."""
    statements = st.builds(Crash, st.just("statement"), st.integers(1, most), st.booleans())
    commits: list[Where] = ["before commit", "after commit"]
    deaths = st.sampled_from([Crash(where, nth, dies=True) for where in commits for nth in (1, 2)])
    failures = st.just(Crash("before commit", 1, dies=False))
    return st.one_of(st.none(), st.none(), statements, deaths, failures)


class Warehouses(RuleBasedStateMachine):
    """The processes of one warehouse; `waiting` are the pages that are not merged yet, in the order of landing."""

    template: ClassVar[Path]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="stateful-", dir=_MEMORY if _MEMORY.is_dir() else None))
        self.disk = Disk(self.folder)
        shutil.copy(self.template, self.disk.warehouse)
        self.now = T0
        self.scans = 0
        self.model = Model()
        self.waiting: list[PendingPage] = []
        self.progress: dict[Row, Row] = {}
        self.outcomes: list[Row] = []
        self.open_scans = dict[tuple[Partition, str], Checkpoint]()
        self.readers = dict[tuple[Partition, str], Reader]()
        self.feeds = dict[str, Feed]()
        self.feed = FakeFeed(20, T0)
        self.snapshot_reader = SnapshotReader()
        self.merge_bytes = _NEVER
        self.may_fail = False
        self.process: Process | None = None

    @property
    def alive(self) -> Process:
        """The current process."""
        assert self.process is not None
        return self.process

    @initialize(merge_bytes=st.sampled_from((_NEVER, _NEVER, 400)))
    def begin(self, merge_bytes: int) -> None:
        self.merge_bytes = merge_bytes
        self._open()

    @rule(hours=st.sampled_from((0, 0, 1, 30)), batch=batches(), fault=faults(5))
    def land(self, hours: int, batch: list[Page], fault: Crash | None) -> None:
        self.now += timedelta(hours=hours)
        pages = [self._next(page) for page in batch]
        returned = self._try(self._land(pages), fault)
        there = progress(self.alive.ask, self.alive.unmerged())
        durable = [one for one in pages if there.get(one.run_kind) == one.progress]
        # A process that is killed during a write leaves the first of them.
        assert durable == pages[: len(durable)], "a page landed, but an earlier one did not"
        assert len(durable) == len(pages) or not returned, "land() returned, but a page is not durable"
        for one in durable:
            self.waiting.append(one)
            self.progress[one.run_kind] = one.progress
            self.outcomes += one.outcomes
            self.feeds[one.checkpoint.scan_id] = one.landed_page.feed
        if returned:
            for one in pages:
                where = (one.checkpoint.partition, one.checkpoint.run_kind)
                self.open_scans[where] = one.checkpoint
                if one.reader is not None:
                    self.readers[where] = one.reader
        else:
            self._forget()
        self._update_model()

    @rule(hours=st.sampled_from((1, 30)), pages=days(), merges=st.booleans())
    def scan(self, hours: int, pages: list[Page], merges: bool) -> None:  # noqa: FBT001 - drawn by name
        """Perform a whole scan page by page, with or without merges between the pages."""
        for page in pages:
            self.land(hours, [page], None)
            if merges:
                self.merge(None)

    @rule(
        mode=st.sampled_from(MODES),
        run_kind=st.sampled_from(RUN_KINDS),
        hours=st.sampled_from((1, 24, 24, 72)),
        change=feed_changes(),
        fault=st.tuples(st.integers(1, 4), faults(5)),
        merges=st.booleans(),
    )
    def sync(
        self,
        mode: SyncMode,
        run_kind: RunKind,
        hours: int,
        change: FeedChange,
        fault: tuple[int, Crash | None],
        merges: bool,  # noqa: FBT001 - drawn by name
    ) -> None:
        """Scan the feed, incrementally or in full, until the end or a fault; the next sync resumes it."""
        self._merge_all()
        self.now += timedelta(hours=hours)
        self.feed.change(change, self.now)
        page = Page(FEED, run_kind, (), "continues", mode)
        scan: Checkpoint | None = self._scan_of(page)
        number = 0
        while scan is not None and scan.state is ScanState.SCANNING:
            number += 1
            items, leads_to = self.feed.page(scan.cursor)
            following = replace(page, items=items, after="ends" if leads_to is None else "continues", leads_to=leads_to)
            self.land(0, [following], fault[1] if number == fault[0] else None)
            scan = self.open_scans.get((FEED, run_kind))
            if merges and scan is not None:
                self.merge(None)
        # The next sync starts from the checkpoint, like another process.
        self._forget()

    @rule(fault=faults(90))
    def merge(self, fault: Crash | None) -> None:
        returned = self._try(self.alive.warehouse.merge(), fault)
        assert not returned or not self.alive.unmerged(), "merge() returned, but a page is not merged"
        self._update_model()

    @rule(merge=st.sampled_from((False, False, True)), fault=faults(150))
    def publish(self, merge: bool, fault: Crash | None) -> None:  # noqa: FBT001 - drawn by name
        if merge:
            self.merge(None)
        self.now += timedelta(minutes=1)
        waiting = Counter(outcome for one in self.waiting for outcome in one.outcomes)
        merged = list((Counter(self.outcomes) - waiting).elements())
        returned = self._try(self._publish(), fault)
        self.snapshot_reader.check(self.disk.snapshot, self.model, merged, at=self.now, published=returned)
        # A process that follows a killed one merges what landed.
        self._update_model()

    @rule(how=st.sampled_from(("dies", "is restarted", "is compacted", "is rebuilt")))
    def between_two_calls(self, how: str) -> None:
        if how == "dies":
            self.disk.copy_files()
            self._restart()
        elif how == "is rebuilt":
            self._merge_all()
            self.alive.run(self.alive.warehouse.write(rebuild_stored, BUILT_IN))
        else:
            self._close()
            if how == "is compacted":
                compact(self.disk.warehouse, now=self.now, pause=lambda _: None)
            self._open()
        self._update_model()

    @invariant()
    def nothing_else_happens(self) -> None:
        if self.process is not None:
            left = self.alive.unmerged()
            assert landed(left) == [one.landed for one in self.waiting]
            assert progress(self.alive.ask, left) == self.progress
            assert outcomes(self.alive.ask, left, inside=True) == sorted(self.outcomes)
            self.snapshot_reader.check_unchanged(self.disk.snapshot)

    def teardown(self) -> None:
        with ExitStack() as last:
            last.callback(shutil.rmtree, self.folder)
            last.callback(self._close)
            self.snapshot_reader.close()

    def _scan_of(self, page: Page) -> Checkpoint:
        """Return the open scan of a page, or resume or begin one."""
        where = (page.partition, page.run_kind)
        scan = self.open_scans.get(where)
        if scan is not None and scan.state is ScanState.SCANNING:
            return scan
        self.scans += 1
        depth = depth_of(self.alive, self.model, page, self.now) if page.partition == FEED else None
        scan = load_checkpoint(self.alive, page, scan_id=f"scan {self.scans}", now=self.now, depth=depth)
        if depth is not None:
            self.readers[where] = reader(self.alive, self.model, scan, depth, self.feeds.get(scan.scan_id))
        self.open_scans[where] = scan
        return scan

    def _forget(self) -> None:
        self.open_scans.clear()
        self.readers.clear()

    def _next(self, page: Page) -> PendingPage:
        self.now += timedelta(seconds=1)
        scan = self._scan_of(page)
        self.now += timedelta(seconds=1)
        pending = next_page(scan, page, self.now, self.readers.get((page.partition, page.run_kind)))
        if scan.pages:
            assert self.progress[pending.run_kind] == (scan.scan_id, scan.cursor, scan.pages, scan.items, "scanning")
        return pending

    async def _publish(self) -> None:
        await self.alive.warehouse.alone(publish, self.disk.snapshot, at=self.now, version="test")
        await self.alive.warehouse.write(save_published, at=self.now)

    async def _land(self, pages: Sequence[PendingPage]) -> None:
        await asyncio.gather(*(self.alive.warehouse.land(one.landing) for one in pages))
        # A merge may still be running in its own thread.
        await self.alive.warehouse.wait_until_idle()

    def _try(self, work: Coroutine[Any, Any, object], fault: Crash | None) -> bool:
        """Run a coroutine; return whether it succeeded. After a fault, no scan is open."""
        if fault is not None and not fault.dies:
            self.may_fail = True
        try:
            self.alive.run(work, fault)
        except WarehouseUnusable:
            # The error of a merge in the background is raised by the next call.
            assert self.may_fail
            self.may_fail = False
            self._forget()
        except Killed:
            self._restart()
        else:
            return True
        return False

    def _merge_all(self) -> None:
        self.merge(None)
        if self.waiting:
            self.merge(None)
        assert not self.waiting

    def _update_model(self) -> None:
        """Merge in the model the pages that were merged; batches are merged one by one."""
        left = landed(self.alive.unmerged())
        for one in self.waiting:
            if one.landed not in left:
                self.model.merge(one.landed_page)
        self.waiting = [one for one in self.waiting if one.landed in left]
        self._check_warehouse()

    def _check_warehouse(self) -> None:
        assert_equal(self.model.tables(inside=True), self.alive.ask, inside=True)
        assert_drifting_column(self.model, self.alive.ask, inside=True)

    def _open(self) -> None:
        self.process = Process(self.disk.warehouse, self.disk.copy_files, now=self.now, merge_bytes=self.merge_bytes)

    def _close(self) -> None:
        self._forget()
        self.may_fail = False
        if self.process is not None:
            process, self.process = self.process, None
            process.close()

    def _restart(self) -> None:
        self._close()
        for life in self.folder.iterdir():
            if life != self.disk.folder:
                shutil.rmtree(life)
        self._open()
