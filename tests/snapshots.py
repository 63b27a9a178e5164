"""Snapshots of several days of the sandbox, on its own calendar, so that a chart by day has a day for each sync.

`python -m tests.snapshots FOLDER` makes that of 28 days.
"""

import asyncio
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
from models.views import views
from tests.clocks import VirtualClock
from tests.dictionary import is_stored

FIRST = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


def snapshot_of(
    folder: Path,
    kind: SandboxSettings,
    days: Iterable[int],
    *,
    before: Callable[[Sandbox], None] = lambda _: None,
    **settings: object,
) -> Path:
    """Sync a quarter of an hour after each day of a sandbox began, after `before`; return the last snapshot."""
    clock, sandbox = VirtualClock(), Sandbox(kind)

    async def sync(url: str) -> None:
        files = {"warehouse": folder / "warehouse.duckdb", "snapshot": str(folder / "analytics.duckdb")}
        chosen = load(base_url=url, api_key="sandbox-demo-key", **files, **settings)
        async with open_resources(chosen, "test") as resources:
            await run_sync(RunRequest(chosen), replace(resources, clock=clock))

    first = datetime.fromtimestamp(kind.first_day, UTC)
    with in_thread(sandbox) as url:
        for day in days:
            sandbox.day, clock.since = day, first + timedelta(days=day, minutes=15)
            before(sandbox)
            asyncio.run(sync(url))
    return folder / "analytics.duckdb"


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 accounts on three days, the last with two denied scans."""
    kind = SandboxSettings(accounts=12, posts=60, change_every=7, first_day=int(FIRST.timestamp()))

    def deny_two(sandbox: Sandbox) -> None:
        active = [account.id for account in sandbox.catalogue.accounts(sandbox.day) if account.status == "active"]
        denied = active[:2] if sandbox.day == 2 else ()
        sandbox.faults += [Fault(account_id=one, surface="posts", code="api_forbidden") for one in denied]

    return snapshot_of(tmp_path_factory.mktemp("three-days"), kind, range(3), before=deny_two)


def rewritten(snapshot: Path, target: Path, change: Callable[[duckdb.DuckDBPyConnection], object]) -> Path:
    """Copy the public tables and views of a snapshot to another file, with changes."""
    stored = [view.name for view in views().values() if is_stored(view)]
    with duckdb.connect(target) as db:
        db.execute(f"SET TimeZone = 'UTC'; ATTACH '{snapshot}' AS old (READ_ONLY)")
        here = "FROM duckdb_columns() WHERE database_name = 'old' AND schema_name = 'main'"
        for (name,) in db.execute(f"SELECT DISTINCT table_name {here}").fetchall():
            if name in stored or name not in views():
                db.execute(f'CREATE TABLE "{name}" AS FROM old.main."{name}"')
        db.execute("DETACH old")
        change(db)
        db.execute("CREATE SCHEMA core; CREATE VIEW core.run_counts AS FROM main.runs")
        for name in ("accounts", "media", "runs", "run_outcomes", "run_warnings"):
            db.execute(f"CREATE VIEW core.{name} AS FROM main.{name}")
        for view in views().values():
            if view.name not in stored:
                db.execute(f"CREATE VIEW {view.name} AS {view.select}")
    return target


if __name__ == "__main__":
    snapshot_of(Path(sys.argv[1]), SandboxSettings(), range(28))
