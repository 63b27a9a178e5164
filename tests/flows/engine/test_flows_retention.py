"""Housekeeping at the end of a run: its errors do not prevent publishing."""

from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

import pytest

from connectors.warehouse.maintenance.housekeeping import is_nearly_all
from flows.engine.upkeep import delete_old
from flows.pipeline import run_sync
from tests.clocks import START
from tests.flows.fake_api import FakeApi, open_run_resources, request, rows

pytestmark = pytest.mark.anyio

YEAR = timedelta(days=365)


async def test_old_runs_are_deleted_and_reported(tmp_path: Path, said: list[str]) -> None:
    service = FakeApi()
    async with open_run_resources(tmp_path, service) as resources:
        for _ in range(5):
            await run_sync(request(tmp_path), resources)
            await service.clock.sleep(86_400)
        await delete_old(timedelta(days=2), resources.warehouse, now=START + YEAR)
        assert await rows(resources, "SELECT count(*) FROM core.runs") == [(4,)]
    # The age counts from the run before the last one, not from the clock.
    assert said == ["Deleted 1 run older than 2 days."]


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
    service = FakeApi(change_posts=lambda items: [items[0], {"caption": "x"}])
    async with open_run_resources(tmp_path, service) as resources:
        report = await run_sync(request(tmp_path), resources)
        assert report.media.quarantined == 3
        for days in (1, 0):
            await delete_old(timedelta(days=days), resources.warehouse, now=START + timedelta(hours=23))
        assert await rows(resources, "SELECT count(*) FROM core.quarantine") == [(0,)]
    assert said == ["Deleted 3 quarantined records older than 0 days."]
