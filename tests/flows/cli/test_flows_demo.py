from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.serve import in_thread
from connectors.warehouse.snapshot.reader import open_snapshot
from flows.cli.commands.demo import _next_day, _past_days, _World

NOW = datetime(2026, 3, 31, 9, tzinfo=UTC)


@pytest.mark.long
def test_past_days_are_synced_by_clocks_of_their_own(tmp_path: Path) -> None:
    world = _World.of(tmp_path, days=28, now=NOW)
    assert world.first_day == datetime(2026, 3, 1, 2, tzinfo=UTC)
    assert _World.of(tmp_path, days=1, now=NOW + timedelta(days=9)) == world
    sandbox = Sandbox(world.settings(0))
    with in_thread(sandbox) as api:
        _past_days(sandbox, api, tmp_path, world, range(3))
    snapshot = tmp_path / "analytics.duckdb"
    with open_snapshot(snapshot) as opened:
        days = opened.query("SELECT started_at::DATE - DATE '2026-03-01' FROM runs ORDER BY seq").rows
        gained = opened.query("SELECT count(DISTINCT day) FROM engagement_by_day WHERE likes_gained > 0").rows
    assert days == [(0,), (1,), (2,)]
    assert gained == [(3,)]
    assert _next_day(snapshot)[0] == 3


def test_the_world_of_an_older_demo_goes_on_from_its_first_sync(tmp_path: Path) -> None:
    world = _World.of(tmp_path, days=28, now=NOW, began=NOW - timedelta(days=5))
    assert world == _World(datetime(2026, 3, 23, 2, tzinfo=UTC), 40)
