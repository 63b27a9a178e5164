import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from connectors.sandbox.http.serve import in_thread
from connectors.warehouse.queries.reader import open_snapshot
from flows.cli.commands.demo import build_sandbox, first_day, sync_days
from flows.config.errors import SettingsError

NOW = datetime(2026, 3, 31, 9, tzinfo=UTC)


@pytest.mark.long
def test_past_days_are_synced_by_clocks_of_their_own(tmp_path: Path) -> None:
    begins = first_day(tmp_path, days=28, now=NOW)
    assert begins == datetime(2026, 3, 4, 2, tzinfo=UTC)
    assert first_day(tmp_path, days=1, now=NOW + timedelta(days=9)) == begins
    sandbox = build_sandbox(begins)
    with in_thread(sandbox) as api:
        asyncio.run(sync_days(sandbox, api, tmp_path, begins, range(4)))
    with open_snapshot(tmp_path / "analytics.duckdb") as opened:
        days = opened.query("SELECT started_at::DATE - DATE '2026-03-04' FROM runs ORDER BY seq LIMIT 3").rows
        requests = opened.query("SELECT bool_and(requests = pages) FROM runs").rows
        gained = opened.query("SELECT count(DISTINCT day) FROM engagement_by_day WHERE likes_gained > 0").rows
    assert days == [(0,), (1,), (2,)]
    assert requests == [(True,)]
    assert gained == [(4,)]


@pytest.mark.parametrize(("hour", "days", "day"), [(9, 28, 4), (1, 28, 3), (9, 1, 28)])
def test_the_last_of_many_days_is_today_and_after_one_day_more_can_follow(
    hour: int, days: int, day: int, tmp_path: Path
) -> None:
    assert first_day(tmp_path, days=days, now=NOW.replace(hour=hour)) == datetime(2026, 3, day, 2, tzinfo=UTC)


def test_the_folder_of_another_warehouse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "warehouse.duckdb").touch()
    with pytest.raises(SettingsError, match=r"another warehouse\. Fix: choose another"):
        first_day(tmp_path, days=28, now=NOW)


@pytest.mark.parametrize("content", [b"", b"2026-03", b"\xff"])
def test_a_damaged_time_of_the_first_day_is_reported_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "first_day").write_bytes(content)
    with pytest.raises(SettingsError, match=r"first_day is damaged\. Fix: delete .*, or choose another --folder\."):
        first_day(tmp_path, days=28, now=NOW)
