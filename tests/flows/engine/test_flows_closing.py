"""The end of a run: what it warns of, and what is deleted because it is old."""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from connectors.state.runs import begin_run, end_run, mark_published, read_runs
from connectors.warehouse.queries.reader import open_snapshot
from flows.engine.closing import delete_old
from flows.pipeline import run_sync
from models.runs import RunState
from tests.api.listed import ListedApi, Records
from tests.clocks import START
from tests.runs import open_run_resources, request, rows, synced

pytestmark = pytest.mark.anyio


YEAR = timedelta(days=365)


async def test_values_that_were_lost_are_reported_at_every_runs_end(tmp_path: Path) -> None:
    unreadable = ListedApi(accounts=2, change_posts=lambda items: [{**item, "timestamp": "soon"} for item in items])
    for _ in range(2):
        report = await synced(tmp_path, unreadable)
        (warning,) = report.warnings
        assert (warning.code, warning.count, report.state) == ("values_not_cast", 6, RunState.COMPLETE)
        assert "published_at (6)" in warning.text
    with open_snapshot(tmp_path / "analytics.duckdb") as snapshot:
        kept = "SELECT count(*) FROM run_warnings WHERE code = 'values_not_cast'"
        assert snapshot.db.execute(kept).fetchall() == [(2,)]


def _ran(state: Connection, at: datetime) -> None:
    begin_run(state, f"{at}", "sync", pid=1, now=at, within=timedelta(), version="1")
    end_run(state, f"{at}", RunState.COMPLETE, now=at)
    mark_published(state, now=at)


@pytest.mark.parametrize(
    ("runs", "keep", "left"),
    [
        # The age counts from the earliest of the ten runs before the last one.
        (range(15), 2, 13),
        (range(5), 2, 5),
        ((*range(10), *range(365, 375)), 90, 20),
        # The ten runs before the last one agree that a year has passed.
        ((*range(10), *range(365, 376)), 90, 11),
    ],
)
async def test_old_runs_go_once_ten_agree_on_time(tmp_path: Path, runs: Collection[int], keep: int, left: int) -> None:
    async with open_run_resources(tmp_path, ListedApi()) as resources:
        for day in runs:
            resources.warehouse.files.state.write(_ran, START + timedelta(days=day))
        delete_old(resources.warehouse.files, timedelta(days=keep), now=START + 2 * YEAR)
        assert len(resources.warehouse.files.state.read(read_runs)) == left
        assert await rows(resources, "SELECT count(*) FROM core.runs") == [(left,)]


async def test_records_leave_quarantine(tmp_path: Path) -> None:
    # One item of each account has no id.
    service = ListedApi(change_posts=lambda items: [items[0], {"caption": "x"}])
    async with open_run_resources(tmp_path, service) as resources:
        report = await run_sync(request(tmp_path), resources)
        assert report.media["quarantined"] == 3
        for days in (1, 0):
            delete_old(resources.warehouse.files, timedelta(days=days), now=START + timedelta(hours=23))
        assert await rows(resources, "SELECT count(*) FROM core.quarantine") == [(0,)]


Varies = Callable[[int, int], dict[str, Any]]
EVERYTHING: tuple[str, ...] = ()

# Fields of day `d` and post `p` of 4, what each day's sync scans, its warnings, and the name in them.
VARIES: dict[str, tuple[Varies, list[tuple[str, ...]], list[int], str]] = {
    "most items": (lambda d, p: {"at": {"of": d * (p < 3)}, "likes": d}, [EVERYTHING] * 4, [0, 0, 0, 1], "/at/of"),
    "half of the items": (lambda d, p: {"at": d * (p < 2)}, [EVERYTHING] * 4, [0] * 4, ""),
    # They neither prevent the warning nor hide it.
    "stories between": (lambda d, _: {"at": f"{d}"}, [EVERYTHING, ("stories",)] * 4, [0, 0, 0, 0, 0, 0, 1, 0], "/at"),
}


@pytest.mark.parametrize("case", VARIES)
async def test_a_field_that_alone_changes_most_items_three_times_is_named(tmp_path: Path, case: str) -> None:
    varies, syncs, warned, name = VARIES[case]
    service, found = ListedApi(accounts=2, posts=4), list[int]()

    def change(items: Records) -> Records:
        return [item | varies(len(found), number) for number, item in enumerate(items)]

    service.change_posts = change
    for surfaces in syncs:
        report = await synced(tmp_path, service, surfaces=surfaces)
        texts = [f"{one.text} {one.fix}" for one in report.warnings if one.code == "items_changed_by_one_field"]
        assert all(f"{name} alone changed most items" in text and f'ignore = ["{name}"]' in text for text in texts)
        found.append(len(texts))
        service.clock.days(1)
    assert found == warned
