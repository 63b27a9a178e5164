"""Snapshots of several days of the sandbox, on its own calendar, so that a chart by day has a day for each sync.

`python -m tests.snapshots FOLDER` makes that of 28 days.
"""

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.faults import Fault
from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from flows.config.settings import load
from flows.engine.resources import open_resources
from flows.engine.run_request import RunRequest
from flows.pipeline import run_sync
from tests.clocks import VirtualClock
from tests.warehouse.export_fixture import as_tables

FIRST = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


def snapshot_of(
    folder: Path,
    sandbox: Sandbox,
    days: Iterable[int],
    *,
    before: Callable[[int], None] = lambda _: None,
    **settings: object,
) -> Path:
    """Sync a quarter of an hour after each day began, after `before`, with these settings; return the last snapshot."""
    clock = VirtualClock()

    async def sync(url: str) -> None:
        files = {"warehouse": folder / "warehouse.duckdb", "snapshot": str(folder / "analytics.duckdb")}
        chosen = load(base_url=url, api_key="sandbox-demo-key", **files, **settings)
        async with open_resources(chosen, "test") as resources:
            await run_sync(RunRequest(chosen), replace(resources, clock=clock))

    first = datetime.fromtimestamp(sandbox.settings.first_day, UTC)
    with in_thread(sandbox) as url:
        for day in days:
            before(day)
            sandbox.day, clock.since = day, first + timedelta(days=day, minutes=15)
            asyncio.run(sync(url))
    return folder / "analytics.duckdb"


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 accounts on three days, the last with two denied scans."""
    sandbox = Sandbox(SandboxSettings(accounts=12, posts=60, change_every=7, first_day=int(FIRST.timestamp())))

    def deny_two(day: int) -> None:
        active = [account.id for account in sandbox.catalogue.accounts(day) if account.status == "active"]
        denied = active[:2] if day == 2 else ()
        sandbox.faults += [Fault(account_id=one, surface="posts", code="api_forbidden") for one in denied]

    return snapshot_of(tmp_path_factory.mktemp("three-days"), sandbox, range(3), before=deny_two)


def rewritten(snapshot: Path, target: Path, change: Callable[[duckdb.DuckDBPyConnection], object]) -> Path:
    """Copy a snapshot to another file, and change its rows there: public tables and views are tables, others follow."""
    shutil.copyfile(snapshot, target)
    with duckdb.connect(target) as db:
        db.execute("SET TimeZone = 'UTC'")
        as_tables(db)
        change(db)
        for name in ("accounts", "media", "runs", "run_outcomes", "run_warnings"):
            db.execute(f"DROP TABLE core.{name}; CREATE VIEW core.{name} AS FROM main.{name}")
        db.execute("DROP TABLE core.run_counts; CREATE VIEW core.run_counts AS FROM main.runs")
    return target


if __name__ == "__main__":
    snapshot_of(Path(sys.argv[1]), Sandbox(), range(28))
