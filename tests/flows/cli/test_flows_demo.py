import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from connectors.sandbox.http.serve import in_thread
from connectors.warehouse.queries.reader import open_snapshot
from flows.cli.commands.demo import build_sandbox, first_day, sync_days
from flows.config.errors import SettingsError
from tests.operator import Cli

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
        days = opened.db.execute(
            "SELECT started_at::DATE - DATE '2026-03-04' FROM runs ORDER BY seq LIMIT 3"
        ).fetchall()
        requests = opened.db.execute("SELECT bool_and(requests = pages) FROM runs").fetchall()
        gained = opened.db.execute(
            "SELECT count(DISTINCT day) FROM engagement_by_day WHERE likes_gained > 0"
        ).fetchall()
    assert days == [(0,), (1,), (2,)]
    assert requests == [(True,)]
    assert gained == [(4,)]


def test_the_folder_of_another_warehouse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "warehouse.duckdb").touch()
    with pytest.raises(SettingsError, match=r"another warehouse\. Fix: choose another"):
        first_day(tmp_path, days=28, now=NOW)


def test_a_demo_syncs_each_day_once_and_today_again(run_cli: Cli) -> None:
    done = run_cli("demo", "--days", "2")
    assert (done.code, "2 days of a sandbox" in done.stdout, "the most likes" in done.stdout) == (0, True, True)
    again = run_cli("demo")
    assert (again.code, "1 day of a sandbox" in again.stdout, "new" in again.stdout) == (0, True, False)
