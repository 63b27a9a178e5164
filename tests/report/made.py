"""Snapshots to make a report of: three days of a sandbox, and the same rows with any text in their place."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from connectors.sandbox.faults.rules import rule_from_json
from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from flows.cli.signals import run_until_signalled
from flows.config.settings import load
from flows.engine.pipeline import run_sync
from flows.engine.resources import build_request, open_resources
from models.views import views

FIRST = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
DAYS = 3

_DENIED = {
    "operation": "media",
    "surface": "posts",
    "times": 2,
    "action": {"kind": "error", "code": "api_forbidden", "status": 403},
}


class Calendar:
    """A clock that stands at 02:15 of a day; nothing waits for it."""

    def __init__(self) -> None:
        self.day = 0

    def now(self) -> datetime:
        return FIRST + timedelta(days=self.day, minutes=15)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


def three_days(folder: Path) -> Path:
    """Sync three days of 12 accounts, the last with two scans denied; return the snapshot."""
    first = int(FIRST.timestamp())
    sandbox = Sandbox(SandboxSettings(accounts=12, posts=40, change_every=4, first_day=first))
    clock = Calendar()

    async def sync(url: str) -> None:
        files = {"warehouse": folder / "warehouse.duckdb", "snapshot": folder / "analytics.duckdb"}
        settings = load(base_url=url, api_key="sandbox-demo-key", **files)
        async with open_resources(settings, "test") as resources:
            await run_sync(build_request(settings), replace(resources, clock=clock))

    with in_thread(sandbox) as url:
        for sandbox.day in range(DAYS):
            clock.day = sandbox.day
            sandbox.faults.replace([rule_from_json(_DENIED)] if sandbox.day == DAYS - 1 else [])
            run_until_signalled(sync(url))
    return folder / "analytics.duckdb"


def rewritten(snapshot: Path, target: Path, change: Callable[[duckdb.DuckDBPyConnection], object]) -> Path:
    """Write what a snapshot promises as tables and views to another file, changed."""
    computed = [view.name for view in views()]
    with duckdb.connect(target) as db:
        db.execute("SET TimeZone = 'UTC'")
        db.execute(f"ATTACH '{snapshot}' AS old (READ_ONLY)")
        names = db.execute("SELECT DISTINCT table_name FROM duckdb_columns() WHERE database_name = 'old'").fetchall()
        known = {name for (name,) in names} - set(computed)
        mine = db.execute(
            "SELECT DISTINCT table_name FROM duckdb_columns() WHERE database_name = 'old' AND schema_name = 'main'"
        ).fetchall()
        for name in sorted(known & {name for (name,) in mine}):
            db.execute(f'CREATE TABLE "{name}" AS FROM old.main."{name}"')
        db.execute("DETACH old")
        change(db)
        for view in views():
            db.execute(f"CREATE VIEW {view.name} AS {view.select}")
    return target
