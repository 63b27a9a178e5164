"""The report of a run: its row of `runs`, its outcomes, and what the published snapshot says about the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from connectors.source.errors import Failure
from connectors.warehouse.merge.run_counts import MergeStats, RunCounts
from connectors.warehouse.queries.outcomes import FailureGroup, read_failures
from connectors.warehouse.queries.reader import Record, open_snapshot
from connectors.warehouse.storage.statements import statements
from flows.reporting.reader import Reader
from models.findings import Finding, Severity
from models.runs import OutcomeKind, RunState, Tally

_SQL = statements(__name__)

Data = Mapping[str, Sequence[Record]]
"""The rows of each query of run_report.sql, by its name."""

NO_DATA: Data = dict.fromkeys(_SQL, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport(RunCounts):
    """The result of a run, which took `seconds`.

    Its counts are those of what this run landed; `resumed` has those of the interrupted runs that it resumed,
    oldest first. `requests` is the number of requests, retries included.

    `mapping_pending`: the media are still read with another mapping than that of the settings.

    `data` is what the snapshot says, `as_of` a time. It is NO_DATA if the snapshot could not be read.
    `snapshot_url` is the bucket in which the snapshot was published, and `report` the HTML report if it was renewed.
    """

    selected: str | None
    reason: str | None
    accounts: int
    accounts_missing: int
    outcomes: Tally
    requests: int
    failure_groups: tuple[FailureGroup, ...]
    warnings: tuple[Finding, ...]
    stopped_by: Failure | None = None
    resumed_runs: tuple[str, ...] = ()
    resumed: tuple[RunCounts, ...] = ()
    restarted: int = 0
    mapping_pending: bool = False
    seconds: float = 0.0
    snapshot: Path = Path()
    snapshot_url: str | None = None
    snapshot_bytes: int = 0
    report: Path | None = None
    data: Data = field(default_factory=lambda: NO_DATA)
    as_of: datetime

    @property
    def scope(self) -> str:
        """Return the run's coverage for alerts: `everything`, `due`, `some` (surfaces) or `chosen` (accounts)."""
        if self.kind == "sync":
            return {None: "everything", "due": "due"}.get(self.selected, "some")
        return "chosen"


def read_data(snapshot: Path, runs: Sequence[str], *, now: datetime) -> Data:
    """Return what a snapshot says, as of `now`, after the first of `runs`, which resumed the others.

    Raises SnapshotMissing, WarehouseUnusable and SnapshotUnreadable.
    """
    with open_snapshot(snapshot) as opened:
        return _data(Reader(opened, now=now), runs)


def _data(reader: Reader, runs: Sequence[str]) -> Data:
    """Return what a snapshot says about the data. Findings are new since the first of `runs` began."""
    reader.set(runs=runs)
    return {name: reader.records(query) for name, query in _SQL.items()}


def last_report(reader: Reader) -> RunReport | None:
    """Return the report of the last run in a snapshot, with the last failure of each partition; None without a run."""
    last = reader.records("SELECT run_id FROM runs WHERE kind <> 'totals' ORDER BY seq DESC LIMIT 1")
    if not last:
        return None
    data = _data(reader, [last[0]["run_id"]])
    run = data["last_runs"][0]
    names = ("accounts", "accounts_removed", "accounts_missing", "pages", "items", "requests")
    counts: dict[str, Any] = {name: run[name] or 0 for name in names}
    return RunReport(
        run_id=run["run_id"],
        kind=run["kind"],
        selected=run["selection"],
        reason=run["reason"],
        state=RunState(run["state"]),
        started_at=run["started_at"],
        **counts,
        outcomes=Tally({OutcomeKind(kind): scans for kind, scans in run["outcomes"].items()}),
        media=MergeStats(**{each.name: run[each.name] or 0 for each in fields(MergeStats)}),
        failure_groups=read_failures(reader.snapshot.db, "FROM last_outcomes", now=reader.at),
        warnings=tuple(map(_to_finding, data["warnings"])),
        data=data,
        as_of=reader.at,
    )


def _to_finding(row: Record) -> Finding:
    """Return a row of `run_warnings` as the finding that was recorded in it."""
    quiet = Severity.WARNING if row["hint"] else Severity.INFORMATION
    severity = Severity.ACTION if row["makes_partial"] else quiet
    return Finding(row["code"], severity, row["detail"], row["hint"] or "", count=row["count"])
