"""Reports of runs for tests."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from connectors.warehouse.queries.outcomes import FailureGroup
from connectors.warehouse.queries.reader import Record
from flows.reporting.run_report import NO_DATA, RunReport
from models.runs import OutcomeKind, RunState
from tests.clocks import START

NO_CHANGES = dict.fromkeys(("added", "changed", "returned", "removed", "expired", "quarantined"), 0)

REPORT = RunReport(
    run_id="run-1", kind="sync", selection=None, reason=None, state=RunState.COMPLETE, started_at=START, as_of=START,
    seconds=2520.0, accounts=100, accounts_removed=0, accounts_missing=0, pages=300, items=12_000, requests=0,
    outcomes=Counter({OutcomeKind.COMPLETE: 100}), media={**NO_CHANGES, "added": 40, "changed": 7}, failure_groups=(),
    warnings=(), snapshot=Path("analytics.duckdb"), snapshot_bytes=1,
)  # fmt: skip


def report(data: dict[str, list[Record]] | None = None, **changes: Any) -> RunReport:  # noqa: ANN401 - fields of RunReport
    """Return the report of a run without problems, with these rows about the data and other changes."""
    outcomes = [{"surface": "posts", "outcomes": {"complete": 100}}]
    return replace(REPORT, data={**NO_DATA, "outcomes": outcomes, **(data or {})}, **changes)


def tokens(*names: str, is_new: bool = True) -> list[Record]:
    """Return rows of accounts whose token expired or was renewed."""
    return [{"account_id": f"id of {name}", "ig_username": name, "since": START, "is_new": is_new} for name in names]


def fields(*paths: str) -> list[Record]:
    return [{"resource": "media", "path": path, "type": "VARCHAR"} for path in paths]


def failure(outcome: OutcomeKind, error_code: str = "api_forbidden", **changes: Any) -> FailureGroup:  # noqa: ANN401
    group = FailureGroup(outcome, error_code, 1, 1, None, "No.", (example("anna"),), ("anna",))
    return replace(group, **changes)


def example(name: str, surface: str = "posts", correlation_id: str = "TRACE") -> dict[str, str | None]:
    return {"ig_username": name, "surface": surface, "correlation_id": correlation_id, "account_id": "a"}


def stale(*names: str) -> dict[str, list[Record]]:
    """Return rows that say that the posts of these accounts are stale."""
    row = {"surface": "posts", "accounts": 100, "fresh": 0, "stale": len(names), "never": 0, "expired": 3}
    rows = [{"account_id": name, "ig_username": name, "surface": "posts"} for name in names]
    return {"freshness": [{**row, "age_seconds": 172_800, "stale_after": 129_600}], "stale": rows}
