"""Snapshots of several days of the sandbox, on its own calendar, so that a chart by day has a day for each sync.

`python -m tests.snapshots FOLDER` makes that of 28 days.
"""

import asyncio
import shutil
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from connectors.sandbox.settings import SandboxSettings
from docs.generate import is_stored
from models.views import views
from tests.api.faults import Rule, refuse
from tests.api.server import Api
from tests.clocks import VirtualClock
from tests.runs import synced

FIRST = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


def snapshot_of(
    folder: Path,
    kind: SandboxSettings,
    days: Iterable[int],
    *,
    before: Callable[[Api], None] = lambda _: None,
    **settings: object,
) -> Path:
    """Sync a quarter of an hour after each day of a sandbox began, after `before`; return the last snapshot."""
    api = Api(kind, clock=VirtualClock(datetime.fromtimestamp(kind.first_day, UTC) + timedelta(minutes=15)))
    for api.day in days:
        api.clock.passed = timedelta(days=api.day).total_seconds()
        before(api)
        asyncio.run(synced(folder, api, **{"page_size": 50, **settings}))
    return folder / "analytics.duckdb"


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 accounts on three days, the last with two denied scans."""
    kind = SandboxSettings(accounts=12, posts=60, change_every=7, first_day=int(FIRST.timestamp()))

    def deny_two(api: Api) -> None:
        denied = api.ids("active")[:2] if api.day == 2 else []
        api.script.replace(Rule(refuse("api_forbidden"), account_id=one, surface="posts") for one in denied)

    return snapshot_of(tmp_path_factory.mktemp("three-days"), kind, range(3), before=deny_two)


def as_tables(db: duckdb.DuckDBPyConnection) -> None:
    """Replace the tables of a snapshot, and the views of their rows, by public tables, to which a test can write."""
    for (name,) in db.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall():
        if name not in views() or is_stored(views()[name]):
            db.execute(f'CREATE TABLE made AS FROM "{name}"; DROP VIEW "{name}"; ALTER TABLE made RENAME TO "{name}"')
    db.execute("DROP SCHEMA core CASCADE")


def rewritten(snapshot: Path, target: Path, change: Callable[[duckdb.DuckDBPyConnection], object]) -> Path:
    """Copy a snapshot to another file, with changes of its public tables."""
    shutil.copy(snapshot, target)
    target.chmod(0o644)
    with duckdb.connect(target) as db:
        as_tables(db)
        change(db)
        db.execute("CREATE SCHEMA core; CREATE VIEW core.run_counts AS FROM main.runs")
        for name in ("accounts", "media", "runs", "run_outcomes", "run_warnings"):
            db.execute(f"CREATE VIEW core.{name} AS FROM main.{name}")
    return target


if __name__ == "__main__":
    snapshot_of(Path(sys.argv[1]), SandboxSettings(), range(28))
