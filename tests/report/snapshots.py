"""Snapshots for reports: three days of the sandbox, and the same rows with other texts."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.faults import Fault
from connectors.sandbox.settings import SandboxSettings
from models.views import views
from tests.dictionary import is_stored
from tests.handoff.days import snapshot_of

FIRST = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
DAYS = 3


def three_days(folder: Path) -> Path:
    """Sync 12 accounts on three days, the last with two denied scans; return the snapshot."""
    first = int(FIRST.timestamp())
    sandbox = Sandbox(SandboxSettings(accounts=12, posts=60, change_every=7, first_day=first))

    def deny_two(day: int) -> None:
        if day == DAYS - 1:
            active = [account.id for account in sandbox.catalogue.accounts(day) if account.status == "active"]
            sandbox.faults += [Fault(account_id=one, surface="posts", code="api_forbidden") for one in active[:2]]

    return snapshot_of(folder, sandbox, range(DAYS), first=FIRST, before=deny_two)


def rewritten(snapshot: Path, target: Path, change: Callable[[duckdb.DuckDBPyConnection], object]) -> Path:
    """Copy the public tables and views of a snapshot to another file, with changes."""
    computed = [view for view in views().values() if not is_stored(view)]
    with duckdb.connect(target) as db:
        db.execute("SET TimeZone = 'UTC'")
        db.execute(f"ATTACH '{snapshot}' AS old (READ_ONLY)")
        names = db.execute(
            "SELECT DISTINCT table_name FROM duckdb_columns() WHERE database_name = 'old' AND schema_name = 'main'"
        ).fetchall()
        for name in {name for (name,) in names} - {view.name for view in computed}:
            db.execute(f'CREATE TABLE "{name}" AS FROM old.main."{name}"')
        db.execute("DETACH old")
        change(db)
        db.execute("CREATE SCHEMA core")
        for name in ("accounts", "media", "runs", "run_outcomes", "run_warnings"):
            db.execute(f"CREATE VIEW core.{name} AS FROM main.{name}")
        db.execute("CREATE VIEW core.run_counts AS FROM main.runs")
        for view in computed:
            db.execute(f"CREATE VIEW {view.name} AS {view.select}")
    return target
