"""Incremental syncs and backfills on workers send the same requests as in one process."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from connectors.source.endpoints import ApiRequest
from connectors.store.object_store import ObjectStore
from flows.config.errors import ClusterLost
from flows.engine.run_context import RunResources
from models.runs import OutcomeKind, RunState
from models.selection import Selection
from tests.flows.cluster.fake_cluster import API, DyingStore, FakeCluster, open_cluster_resources
from tests.flows.daily import PAGE, DailyRuns, kinds
from tests.flows.fake_api import Refusal, cursor_of, is_posts, uuid
from tests.flows.feeds import Feed, daily
from tests.store.memory import MemoryStore

pytestmark = pytest.mark.anyio

RECENT_PAGES = 8
_SELDOM = timedelta(days=300)


class ClusterStage(DailyRuns):
    """A runs whose batches workers scan. The workers of the first `dying` attempts land one entry each."""

    def __init__(self, folder: Path, *feeds: Feed) -> None:
        super().__init__(folder, *feeds)
        self.store = MemoryStore()
        self.api = replace(API, page_size=PAGE, concurrency=1)
        self.cluster = FakeCluster(self.service, self.store, self._store_of)
        self.dying = 0
        self.shifts = 0

    def resources(self) -> AbstractAsyncContextManager[RunResources]:
        return open_cluster_resources(self.folder, self.service, self.cluster, api=self.api, page_size=PAGE)

    def _store_of(self, _: str, shared: ObjectStore) -> ObjectStore:
        if self.shifts:
            self.grow(self.shifts)
        if not self.dying:
            return shared
        self.dying -= 1
        return DyingStore(shared=self.store, entries=1)

    async def lose(self, **changes: Any) -> None:  # noqa: ANN401 - fields of RunRequest
        """Make a run whose three attempts land an entry each, and are lost."""
        self.dying = 3
        with pytest.raises(ClusterLost):
            await self.sync(**changes)
        self.clock.days(0.1)


@pytest.fixture(autouse=True)
def _an_entry_a_landing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.cluster.worker._PAGES", 1)


@dataclass(frozen=True)
class Days:
    """Sync on three days and return the contents of the snapshot."""

    reports: list[tuple[Any, ...]]
    tables: list[list[tuple[Any, ...]]]


async def three_days(runs: DailyRuns) -> Days:
    reports: list[tuple[Any, ...]] = []
    for _ in range(3):
        report = await runs.sync()
        reports.append((kinds(report), report.requests, len(runs.cursors)))
        runs.grow()
    scans = "SELECT account_id, surface, item_order, covered_from, gap_since FROM freshness ORDER BY ALL"
    items = "SELECT account_id, surface, media_id, like_count, removed_at FROM media ORDER BY ALL"
    return Days(reports, [runs.ask(query) for query in (scans, items, "FROM gaps")])


async def test_known_posts_reach_the_worker(tmp_path: Path) -> None:
    found = []
    for name, kind in (("alone", DailyRuns), ("cluster", ClusterStage)):
        folder = tmp_path / name
        folder.mkdir()
        found.append(await three_days(kind(folder, daily(200, pins=[3, 90]), daily(20), daily(80, order="random"))))
    alone, cluster = found
    assert cluster == alone
    second, _, asked = cluster.reports[1]
    assert (second, asked) == ({OutcomeKind.COMPLETE: 6, OutcomeKind.RECENT: 1}, RECENT_PAGES)


async def test_a_full_refresh_reads_everything(tmp_path: Path) -> None:
    runs = ClusterStage(tmp_path, daily(100))
    for mode in ("incremental", "full_refresh"):
        report = await runs.sync(mode=mode)
        assert kinds(report) == {OutcomeKind.COMPLETE: 3}
        assert len(runs.cursors) == 10


async def test_a_scan_resumed_by_the_next_run_keeps_its_seen_posts(tmp_path: Path) -> None:
    """Posts that have moved down occur on the next page again and do not break the order."""
    runs = ClusterStage(tmp_path, daily(200))
    await runs.sync(full_refresh_every=_SELDOM)
    runs.grow()
    # Its stories, and two pages of posts.
    await runs.lose(full_refresh_every=_SELDOM)
    runs.grow(3)
    report = await runs.sync(days=0.1, full_refresh_every=_SELDOM)
    assert runs.cursors[0] == "c20"
    assert kinds(report)[OutcomeKind.RECENT] == 1
    await runs.sync(full_refresh_every=_SELDOM)
    assert runs.likes() == runs.truth()


async def test_a_later_attempt_keeps_the_posts_seen_by_earlier_ones(tmp_path: Path) -> None:
    runs = ClusterStage(tmp_path, daily(200))
    await runs.sync(full_refresh_every=_SELDOM)
    runs.dying, runs.shifts = 2, 3
    report = await runs.sync(days=0.1, full_refresh_every=_SELDOM)
    runs.shifts = 0
    assert runs.cluster.submitted[-1].endswith("-3")
    assert kinds(report)[OutcomeKind.RECENT] == 1
    await runs.sync(full_refresh_every=_SELDOM)
    assert runs.likes() == runs.truth()


async def test_the_checkpoints_of_a_backfill_are_its_own(tmp_path: Path) -> None:
    runs = ClusterStage(tmp_path, daily(100))
    await runs.sync(mode="full_refresh")
    await runs.lose(mode="full_refresh")
    backfill = Selection(accounts=(uuid(1),), surfaces=("posts",))
    report = await runs.sync(days=0.1, mode="full_refresh", selection=backfill)
    assert (report.kind, kinds(report)) == ("backfill", {OutcomeKind.COMPLETE: 1})
    assert (runs.cursors[0], len(runs.cursors)) == (None, 10)
    await runs.lose(mode="full_refresh", selection=backfill)
    # The sync continues at its own cursor, not at the backfill's.
    report = await runs.sync(days=0.1, mode="full_refresh")
    assert (runs.cursors[0], len(runs.cursors)) == ("c20", 8)
    report = await runs.sync(days=0.1, mode="full_refresh", selection=backfill)
    assert len(report.resumed_runs) == 1
    assert (runs.cursors[0], len(runs.cursors)) == ("c30", 7)
    assert runs.likes() == runs.truth()


async def test_an_expired_token_is_skipped_and_scanned_once_it_is_renewed(tmp_path: Path) -> None:
    runs = ClusterStage(tmp_path, daily(30), daily(30))
    runs.service.expired = frozenset({1})
    report = await runs.sync()
    assert kinds(report) == {OutcomeKind.COMPLETE: 3, OutcomeKind.SKIPPED: 2}
    assert (report.state, runs.cursors) == (RunState.COMPLETE, [])
    runs.service.expired = frozenset()
    assert kinds(await runs.sync()) == {OutcomeKind.COMPLETE: 5}
    assert runs.likes() == runs.truth(1) | runs.truth(2)


async def test_an_expired_token_is_scanned_where_the_settings_say_so(tmp_path: Path) -> None:
    runs = ClusterStage(tmp_path, daily(30))
    runs.service.expired = frozenset({1})
    runs.api = replace(runs.api, scan_expired=True)
    assert kinds(await runs.sync()) == {OutcomeKind.COMPLETE: 3}
    assert len(runs.cursors) == 3


@pytest.mark.parametrize("refusals", [1, 2])
async def test_a_refused_cursor_restarts_a_scan_once(tmp_path: Path, refusals: int) -> None:
    runs = ClusterStage(tmp_path, daily(100))
    left = [Refusal(422, "api_invalid_cursor")] * refusals

    def failure(request: ApiRequest) -> Refusal | None:
        return left.pop() if left and is_posts(request, 1) and cursor_of(request) == "c30" else None

    runs.service.failure = failure
    report = await runs.sync(mode="full_refresh")
    assert report.restarted == 1
    first = [None, "c10", "c20", "c30"]
    if refusals == 1:
        assert kinds(report) == {OutcomeKind.COMPLETE: 3}
        assert runs.cursors == [*first, *first, *(f"c{place}" for place in range(40, 100, 10))]
    else:
        assert kinds(report) == {OutcomeKind.COMPLETE: 2, OutcomeKind.FAILED: 1}
        assert runs.cursors == [*first, *first]
        # It was abandoned, so the next one begins at the first page.
        assert kinds(await runs.sync(mode="full_refresh")) == {OutcomeKind.COMPLETE: 3}
        assert (runs.cursors[0], len(runs.cursors)) == (None, 10)
    assert runs.likes() == runs.truth()
