"""Housekeeping at the end of a run: its errors do not prevent publishing."""

from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection

from connectors.state.runs import begin_run, end_run, mark_published, read_runs
from flows.engine.closing import delete_old
from flows.pipeline import run_sync
from models.runs import RunState
from tests.api.listed import ListedApi
from tests.clocks import START
from tests.runs import open_run_resources, request, rows

pytestmark = pytest.mark.anyio

YEAR = timedelta(days=365)


def _ran(state: Connection, at: datetime) -> None:
    begin_run(state, f"{at}", "sync", pid=1, now=at, within=timedelta(), version="1")
    end_run(state, f"{at}", RunState.COMPLETE, now=at)
    mark_published(state, now=at)


@pytest.mark.parametrize(
    ("runs", "keep", "left", "message"),
    [
        # The age counts from the earliest of the ten runs before the last one.
        (range(15), 2, 13, "Deleted 2 runs older than 2 days."),
        (range(5), 2, 5, ""),
        ((*range(10), *range(365, 375)), 90, 20, ""),
        # The ten runs before the last one agree that a year has passed.
        ((*range(10), *range(365, 376)), 90, 11, "Deleted 10 runs older than 90 days."),
    ],
)
async def test_old_runs_are_deleted_and_reported_once_ten_runs_agree_on_the_time(
    tmp_path: Path, said: list[str], runs: Collection[int], keep: int, left: int, message: str
) -> None:
    async with open_run_resources(tmp_path, ListedApi()) as resources:
        for day in runs:
            await resources.warehouse.write_state(_ran, START + timedelta(days=day))
        await delete_old(timedelta(days=keep), resources.warehouse, now=START + 2 * YEAR)
        assert len(await resources.warehouse.read_state(read_runs)) == left
        assert await rows(resources, "SELECT count(*) FROM core.runs") == [(left,)]
    assert len(said) == bool(message)
    assert all(line.startswith(message) for line in said)


async def test_records_that_leave_quarantine_are_reported(tmp_path: Path, said: list[str]) -> None:
    # One item of each account has no id.
    service = ListedApi(change_posts=lambda items: [items[0], {"caption": "x"}])
    async with open_run_resources(tmp_path, service) as resources:
        report = await run_sync(request(tmp_path), resources)
        assert report.media.quarantined == 3
        for days in (1, 0):
            await delete_old(timedelta(days=days), resources.warehouse, now=START + timedelta(hours=23))
        assert await rows(resources, "SELECT count(*) FROM core.quarantine") == [(0,)]
    assert said == ["Deleted 3 quarantined records older than 0 days."]
