"""Land, merge, die, resume, publish, in any order, against a model of dicts."""

import asyncio
import shutil
import tempfile
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
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.checkpoint import Checkpoint, RunKind, ScanState
from models.incremental import SyncMode
from models.partition import Partition
from models.schema.mapping_built_in import BUILT_IN
from tests.model.recent import Feed
from tests.simulation.disk import Disk
from tests.simulation.loop import Killed
from tests.stateful.analyst import Analyst
from tests.stateful.compare import column_of_drift, outcomes, progress, same, staged
from tests.stateful.fuse import FailureGroup, Where
from tests.stateful.model import Model, Row
from tests.stateful.pages import FEED, RUN_KINDS, News, Page, Served, batches, days, news
from tests.stateful.process import Process
from tests.stateful.scans import Reader, Told, depth_of, reader, taken_up, tell
from tests.warehouse.rig import T0

_NEVER = 10**9
MODES: tuple[SyncMode, ...] = ("incremental", "incremental", "incremental", "full_refresh")
# Where files are memory: what is tested is what DuckDB writes, not what the disk does with it.
_MEMORY = Path("/dev/shm")


def troubles(most: int) -> st.SearchStrategy[FailureGroup | None]:
    """Mostly none; a death or a failure at one of so many statements, or at a commit."""
    statements = st.builds(FailureGroup, st.just("statement"), st.integers(1, most), st.booleans())
    commits: list[Where] = ["before commit", "after commit"]
    deaths = st.sampled_from([FailureGroup(where, nth, dies=True) for where in commits for nth in (1, 2)])
    failures = st.just(FailureGroup("before commit", 1, dies=False))
    return st.one_of(st.none(), st.none(), statements, deaths, failures)


class Warehouses(RuleBasedStateMachine):
    """The lives of one warehouse. What landed and is not merged is `waiting`, in the order of landing."""

    template: ClassVar[Path]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="stateful-", dir=_MEMORY if _MEMORY.is_dir() else None))
        self.disk = Disk(self.folder)
        shutil.copy(self.template, self.disk.warehouse)
        self.now = T0
        self.scans = 0
        self.model = Model()
        self.waiting: list[Told] = []
        self.progress: dict[Row, Row] = {}
        self.outcomes: list[Row] = []
        self.in_mind = dict[tuple[Partition, str], Checkpoint]()
        self.readers = dict[tuple[Partition, str], Reader]()
        self.feeds = dict[str, Feed]()
        self.served = Served(20, T0)
        self.analyst = Analyst()
        self.merge_bytes = _NEVER
        self.may_fail = False
        self.process: Process | None = None

    @property
    def alive(self) -> Process:
        """The process of this life."""
        assert self.process is not None
        return self.process

    @initialize(merge_bytes=st.sampled_from((_NEVER, _NEVER, 400)))
    def begin(self, merge_bytes: int) -> None:
        self.merge_bytes = merge_bytes
        self._open()

    @rule(hours=st.sampled_from((0, 0, 1, 30)), batch=batches(), trouble=troubles(5))
    def land(self, hours: int, batch: list[Page], trouble: FailureGroup | None) -> None:
        self.now += timedelta(hours=hours)
        message = [self._next(page) for page in batch]
        returned = self._try(self._land(message), trouble)
        there = progress(self.alive.ask)
        landed = [one for one in message if there.get(one.run_kind) == one.progress]
        # A process that dies while it writes leaves the first of them.
        assert landed == message[: len(landed)], "a page landed, and one that had arrived before it did not"
        assert len(landed) == len(message) or not returned, "what was said to be durable is not there"
        for one in landed:
            self.waiting.append(one)
            self.progress[one.run_kind] = one.progress
            self.outcomes += one.outcomes
            self.feeds[one.checkpoint.scan_id] = one.heard.feed
        if returned:
            for one in message:
                where = (one.checkpoint.partition, one.checkpoint.run_kind)
                self.in_mind[where] = one.checkpoint
                if one.reader is not None:
                    self.readers[where] = one.reader
        else:
            self._forget()
        self._notice_a_merge(may=self.merge_bytes != _NEVER)

    @rule(hours=st.sampled_from((1, 30)), pages=days(), merges=st.booleans())
    def scan(self, hours: int, pages: list[Page], merges: bool) -> None:  # noqa: FBT001 - drawn by name
        """To its end, page by page, with or without a merge between them."""
        for page in pages:
            self.land(hours, [page], None)
            if merges:
                self.merge(None)

    @rule(
        mode=st.sampled_from(MODES),
        run_kind=st.sampled_from(RUN_KINDS),
        hours=st.sampled_from((1, 24, 24, 72)),
        news=news(),
        trouble=st.tuples(st.integers(1, 4), troubles(5)),
        merges=st.booleans(),
    )
    def sync(
        self,
        mode: SyncMode,
        run_kind: RunKind,
        hours: int,
        news: News,
        trouble: tuple[int, FailureGroup | None],
        merges: bool,  # noqa: FBT001 - drawn by name
    ) -> None:
        """A scan of the feed, incremental or full, to its end or until it breaks at a page; the next resumes it."""
        self._merge_all()
        self.now += timedelta(hours=hours)
        self.served.change(news, self.now)
        page = Page(FEED, run_kind, (), "goes on", mode)
        scan: Checkpoint | None = self._scan_of(page)
        number = 0
        while scan is not None and scan.state is ScanState.SCANNING:
            number += 1
            items, leads_to = self.served.page(scan.cursor)
            following = replace(page, items=items, after="ends" if leads_to is None else "goes on", leads_to=leads_to)
            self.land(0, [following], trouble[1] if number == trouble[0] else None)
            scan = self.in_mind.get((FEED, run_kind))
            if merges and scan is not None:
                self.merge(None)
        # The next one begins afresh, or at the checkpoint: as another process would.
        self._forget()

    @rule(trouble=troubles(90))
    def merge(self, trouble: FailureGroup | None) -> None:
        returned = self._try(self.alive.warehouse.merge(), trouble)
        assert not returned or not staged(self.alive.ask), "what is merged is cleared"
        self._notice_a_merge(may=True)

    @rule(merge=st.sampled_from((False, False, True)), trouble=troubles(150))
    def publish(self, merge: bool, trouble: FailureGroup | None) -> None:  # noqa: FBT001 - drawn by name
        if merge:
            self.merge(None)
        self.now += timedelta(minutes=1)
        work = self.alive.warehouse.publish(self.disk.snapshot, at=self.now, version="test")
        returned = self._try(work, trouble)
        self.analyst.look(self.disk.snapshot, self.model, self.outcomes, at=self.now, published=returned)

    @rule(how=st.sampled_from(("dies", "is restarted", "is compacted", "is read anew")))
    def between_two_calls(self, how: str) -> None:
        if how == "dies":
            self.disk.copy_files()
            self._live_again()
        elif how == "is read anew":
            self._merge_all()
            self.alive.run(self.alive.warehouse.transact(rebuild_stored, BUILT_IN))
        else:
            self._close()
            if how == "is compacted":
                compact(self.disk.warehouse, now=self.now, pause=lambda _: None)
            self._open()
        self._look_around()

    @invariant()
    def nothing_else_happens(self) -> None:
        if self.process is not None:
            assert staged(self.alive.ask) == [one.staged for one in self.waiting]
            assert progress(self.alive.ask) == self.progress
            assert outcomes(self.alive.ask, inside=True) == sorted(self.outcomes)
            self.analyst.still_has_it(self.disk.snapshot)

    def teardown(self) -> None:
        with ExitStack() as last:
            last.callback(shutil.rmtree, self.folder)
            last.callback(self._close)
            self.analyst.close()

    def _scan_of(self, page: Page) -> Checkpoint:
        """The scan that a page belongs to: the one in mind, or else one that is taken up or begun now."""
        where = (page.partition, page.run_kind)
        scan = self.in_mind.get(where)
        if scan is not None and scan.state is ScanState.SCANNING:
            return scan
        self.scans += 1
        depth = depth_of(self.alive, self.model, page, self.now) if page.partition == FEED else None
        scan = taken_up(self.alive, page, scan_id=f"scan {self.scans}", now=self.now, depth=depth)
        if depth is not None:
            self.readers[where] = reader(self.alive, self.model, scan, depth, self.feeds.get(scan.scan_id))
        self.in_mind[where] = scan
        return scan

    def _forget(self) -> None:
        self.in_mind.clear()
        self.readers.clear()

    def _next(self, page: Page) -> Told:
        self.now += timedelta(seconds=1)
        scan = self._scan_of(page)
        self.now += timedelta(seconds=1)
        message = tell(scan, page, self.now, self.readers.get((page.partition, page.run_kind)))
        if scan.pages:
            assert self.progress[message.run_kind] == (scan.scan_id, scan.cursor, scan.pages, scan.items, "scanning")
        return message

    async def _land(self, message: Sequence[Told]) -> None:
        await asyncio.gather(*(self.alive.warehouse.land(one.landing) for one in message))
        # What is merged on arrival may be merged beside the next landing.
        await self.alive.warehouse.wait_until_idle()

    def _try(self, work: Coroutine[Any, Any, object], trouble: FailureGroup | None) -> bool:
        """Do work; whether it returned. After trouble nobody has anything in mind."""
        if trouble is not None and not trouble.dies:
            self.may_fail = True
        try:
            self.alive.run(work, trouble)
        except WarehouseUnusable:
            # A merge on arrival may fail unheard, and is then told to whoever comes next.
            assert self.may_fail
            self.may_fail = False
            self._forget()
        except Killed:
            self._live_again()
        else:
            return True
        return False

    def _merge_all(self) -> None:
        self.merge(None)
        if self.waiting:
            self.merge(None)
        assert not self.waiting

    def _notice_a_merge(self, *, may: bool) -> None:
        """A merge merges all that was staged when it began, or nothing."""
        merged = len(self.waiting) - len(staged(self.alive.ask)) if may else 0
        assert merged in (0, len(self.waiting)) or self.merge_bytes != _NEVER, "half of it is merged"
        for one in self.waiting[:merged]:
            self.model.merge(one.heard)
        del self.waiting[:merged]
        self._look_around()

    def _look_around(self) -> None:
        same(self.model.tables(inside=True), self.alive.ask, inside=True)
        column_of_drift(self.model, self.alive.ask, inside=True)

    def _open(self) -> None:
        self.process = Process(self.disk.warehouse, self.disk.copy_files, now=self.now, merge_bytes=self.merge_bytes)

    def _close(self) -> None:
        self._forget()
        self.may_fail = False
        if self.process is not None:
            process, self.process = self.process, None
            process.close()

    def _live_again(self) -> None:
        self._close()
        for life in self.folder.iterdir():
            if life != self.disk.folder:
                shutil.rmtree(life)
        self._open()
