"""What a snapshot says about accounts and runs, and the report of a run: its outcomes and the data after it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from connectors.source.errors import ApiError
from connectors.warehouse.queries.outcomes import FailureGroup, read_failures, read_report, read_warnings
from connectors.warehouse.queries.reader import Record, Snapshot, open_snapshot
from connectors.warehouse.queries.selection import find_accounts
from connectors.warehouse.storage.sql import statements
from flows.config.errors import ExitCode
from models.checkpoint import RunKind
from models.feeds import SURFACES
from models.files import SnapshotUnreadable
from models.runs import Finding, OutcomeKind, RunState

# Of the time axes of a report.
WEEKS = 4

_SQL = statements(__name__)
_VIEWS = ("chosen", "fresh", "reported", "last_outcomes")

Data = Mapping[str, Sequence[Record]]
"""The rows of each query of run_report.sql, by its name."""

NO_DATA: Data = {name: () for name in _SQL if name not in _VIEWS}


class Reader:
    """Runs queries in an open snapshot, for some accounts and as of a time, `at`.

    The queries refer to the variables `made_at` (that time), `stale_after` (seconds), `surfaces` and `is_everything`,
    and to what these create: `chosen`, the ids of the accounts; `fresh`, their rows of the view `freshness` with
    `is_overdue`; `last_outcomes`, the outcome of each partition in the last run of any kind that scanned it; and
    `reported`, the runs that have reported what they found.

    Raises SnapshotUnreadable, and SelectionError if the snapshot lacks one of the accounts.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        accounts: Sequence[str] = (),
        *,
        surfaces: Sequence[str] = SURFACES,
        now: datetime | None = None,
    ) -> None:
        """Answer for these accounts (ids, names or public ids; empty: all), as of `now` or the time of the snapshot."""
        self.snapshot = snapshot
        # Refuses a file of another program, whose view has other columns.
        published = self.records("FROM published WHERE snapshot_at IS NOT NULL AND stale_after IS NOT NULL")
        if not published:
            raise SnapshotUnreadable("published has no row, so this is not a snapshot of gramhouse.")
        [self.published] = published
        self.at: datetime = now or self.published["snapshot_at"]
        # No account has the empty id, with which a list without any has a type.
        ids = [*find_accounts(snapshot.db, accounts), ""]
        self.set(made_at=self.at, stale_after=self.published["stale_after"], surfaces=surfaces)
        self.set(is_everything=not accounts, account_ids=ids)
        for name in _VIEWS:
            self.records(_SQL[name])

    def set(self, **variables: object) -> None:
        """Set variables of queries."""
        for name, value in variables.items():
            self.snapshot.query(f"SET VARIABLE {name} = ?", [value])

    def records(self, query: str) -> list[Record]:
        """Return a query's rows."""
        return self.snapshot.query(query)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What became of a run, as the warehouse or a snapshot says it.

    `media` has the numbers of changes by their names in `runs`. `requests` includes retries. `resumed` are the rows of
    the interrupted runs that it resumed, oldest first. `data` is what the snapshot says as of `as_of`; it is NO_DATA if
    the snapshot could not be read.

    Of a run that has just ended: it took `seconds`. `mapping_pending`: the media are still read with another mapping
    than that of the settings. `snapshot_url` is the bucket in which the snapshot was published, and `report` the HTML
    report if it was renewed.
    """

    run_id: str
    kind: RunKind
    state: RunState
    selection: str | None
    reason: str | None
    started_at: datetime
    accounts: int
    accounts_missing: int
    accounts_removed: int
    requests: int
    pages: int
    items: int
    media: Mapping[str, int]
    outcomes: Counter[OutcomeKind]
    failure_groups: tuple[FailureGroup, ...]
    warnings: tuple[Finding, ...]
    as_of: datetime
    data: Data = field(default_factory=lambda: NO_DATA)
    resumed: tuple[Record, ...] = ()
    resumed_runs: tuple[str, ...] = ()
    stopped_by: ApiError | None = None
    restarted: int = 0
    mapping_pending: bool = False
    seconds: float = 0.0
    snapshot: Path = Path()
    snapshot_url: str | None = None
    snapshot_bytes: int = 0
    report: Path | None = None

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code of the run's command."""
        return ExitCode[self.state.name]

    @property
    def scope(self) -> str:
        """Return the run's coverage for alerts: `everything`, `due`, `some` (surfaces) or `chosen` (accounts)."""
        if self.kind == "sync":
            return {None: "everything", "due": "due"}.get(self.selection, "some")
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
    return {name: reader.records(_SQL[name]) for name in NO_DATA}


def last_report(reader: Reader) -> RunReport | None:
    """Return the report of the last run in a snapshot, with the last failure of each partition; None without a run."""
    last = reader.records("SELECT run_id FROM core.runs ORDER BY seq DESC LIMIT 1")
    if not last:
        return None
    db, run_id = reader.snapshot.db, last[0]["run_id"]
    facts = read_report(db, run_id, now=reader.at) | {
        "failure_groups": read_failures(db, None, now=reader.at),
        "warnings": read_warnings(db, run_id, is_last=True),
    }
    return RunReport(**facts, data=_data(reader, [run_id]))
