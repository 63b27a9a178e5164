"""A whole run in this process: the client, the sandbox over ASGI, and a warehouse on disk."""

from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection

from connectors.state.runs import begin_run, end_run, mark_published, read_runs
from connectors.warehouse.queries.reader import open_snapshot
from flows.engine.closing import delete_old
from flows.pipeline import run_sync
from models.runs import RunState
from tests.api.listed import ListedApi
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
        assert snapshot.db.execute("SELECT count(*) FROM run_warnings WHERE code = 'values_not_cast'").fetchall() == [
            (2,)
        ]


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
async def test_old_runs_are_deleted_once_ten_runs_agree_on_the_time(
    tmp_path: Path, runs: Collection[int], keep: int, left: int
) -> None:
    async with open_run_resources(tmp_path, ListedApi()) as resources:
        for day in runs:
            await resources.warehouse.write_state(_ran, START + timedelta(days=day))
        await delete_old(timedelta(days=keep), resources.warehouse, now=START + 2 * YEAR)
        assert len(await resources.warehouse.read_state(read_runs)) == left
        assert await rows(resources, "SELECT count(*) FROM core.runs") == [(left,)]


async def test_records_leave_quarantine(tmp_path: Path) -> None:
    # One item of each account has no id.
    service = ListedApi(change_posts=lambda items: [items[0], {"caption": "x"}])
    async with open_run_resources(tmp_path, service) as resources:
        report = await run_sync(request(tmp_path), resources)
        assert report.media["quarantined"] == 3
        for days in (1, 0):
            await delete_old(timedelta(days=days), resources.warehouse, now=START + timedelta(hours=23))
        assert await rows(resources, "SELECT count(*) FROM core.quarantine") == [(0,)]
