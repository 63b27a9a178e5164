"""Housekeeping at the end of a run: its errors do not prevent publishing."""

from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection

from connectors.state.runs import begin_run, end_run, mark_published, read_runs
from connectors.warehouse.maintenance.retention import is_nearly_all
from flows.engine.upkeep import delete_old
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
        # The age counts from the run before the last one, not from the clock.
        (range(5), 2, 4, "Deleted 1 run older than 2 days."),
        # That run is a correct one, but not after another one a year ahead.
        ((0, 1, 2, 365), 90, 4, ""),
        ((0, 1, 2, 365, 366), 90, 5, "GRAMHOUSE_KEEP_RUNS would delete 3 of 5 runs"),
    ],
)
async def test_old_runs_are_deleted_and_reported_unless_the_clock_may_be_wrong(
    tmp_path: Path, said: list[str], runs: Collection[int], keep: int, left: int, message: str
) -> None:
    async with open_run_resources(tmp_path, ListedApi()) as resources:
        for day in runs:
            await resources.warehouse.write_state(_ran, START + timedelta(days=day))
        await delete_old(timedelta(days=keep), resources.warehouse, now=START + YEAR)
        assert len(await resources.warehouse.read_state(read_runs)) == left
        assert await rows(resources, "SELECT count(*) FROM core.runs") == [(left,)]
    assert len(said) == bool(message)
    assert all(line.startswith(message) for line in said)
    assert "would" not in message or "Fix: check this machine's clock" in said[0]


@pytest.mark.parametrize(
    ("days", "keep", "refused"),
    [
        ([0, 1, 2, 3, 365], 90, True),
        ([0, 365, 366], 90, False),
        ([*range(365), *range(500, 540)], 90, True),
        ([*range(365), *range(500, 545)], 90, False),
        (range(400), 7, False),
        (range(100), 90, False),
        ([], 90, False),
    ],
    ids=["a jump", "not most", "soon after", "half of the window", "a shorter setting", "every day", "nothing"],
)
def test_deleting_most_runs_is_refused_unless_half_of_the_days_to_keep_remain(
    days: Collection[int], keep: int, *, refused: bool
) -> None:
    begin = START.date()
    there = [begin + timedelta(days=day) for day in days]
    before = max(there, default=begin) - timedelta(days=keep)
    assert is_nearly_all(there, before=before, keep=keep) is refused


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
