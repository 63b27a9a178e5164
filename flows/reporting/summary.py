"""A run's full summary for its operator, read only from the published snapshot."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

from connectors.warehouse.runs.failure_groups import FailureGroup, failure_groups
from connectors.warehouse.snapshot.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.statements import statements
from models.runs import OutcomeKind, RunState, RunWarning, Tally

T = TypeVar("T")

_SQL = statements(__name__)

# Limits, so that a summary is one page even with 100,000 accounts.
SHOWN = 50
GROUPS = 20
RUNS = 14

# The columns of `runs` that count what a run landed and changed.
COUNTS = ("pages", "items", "accounts_removed", "added", "changed", "removed", "expired", "returned", "quarantined")


@dataclass(frozen=True, slots=True)
class Truncated(Generic[T]):
    """The first of a number of records; `total` is the number of all."""

    total: int = 0
    shown: tuple[T, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run. `selection` is what it scans (None: everything), `reason` the user's reason.

    `seconds` is None if it has not ended.
    """

    run_id: str
    kind: str
    selection: str | None
    reason: str | None
    state: RunState
    started_at: datetime
    seconds: float | None
    accounts: int
    accounts_removed: int
    accounts_missing: int
    pages: int
    items: int
    added: int
    changed: int
    removed: int
    expired: int
    returned: int
    quarantined: int
    requests: int
    error_code: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class OutcomeCount:
    """Number of scans of a surface (empty: of the catalogue) with an outcome."""

    surface: str
    outcome: OutcomeKind
    scans: int


@dataclass(frozen=True, slots=True)
class Token:
    """An account with the status of its token: `since` when it has this status; its media are as of `media_as_of`."""

    account_id: str
    ig_username: str
    since: datetime
    media_as_of: datetime | None


@dataclass(frozen=True, slots=True)
class Tokens:
    """Accounts whose token was found expired by this run, is active again, or had expired before."""

    newly: Truncated[Token] = Truncated()
    recovered: Truncated[Token] = Truncated()
    still: Truncated[Token] = Truncated()


@dataclass(frozen=True, slots=True)
class Freshness:
    """The number of accounts with a valid token whose surface is fresh, stale, or was never scanned to the end.

    `overdue` are the stale ones, and those never scanned although they have been known for as long. `expired` is the
    number of accounts with an expired token, which the other numbers do not include.
    """

    surface: str
    accounts: int
    fresh: int
    stale: int
    never: int
    overdue: int
    expired: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the API's records, with the type of its column."""

    resource: str
    path: str
    type: str


@dataclass(frozen=True, slots=True)
class Drift:
    """Fields that are new or changed their type in this run."""

    new: Truncated[Field] = Truncated()
    retyped: Truncated[Field] = Truncated()


@dataclass(frozen=True, slots=True)
class Summary:
    """A run, its open work, the freshness of the data, and the last runs, newest first."""

    run: RunFacts
    resumed_runs: tuple[str, ...]
    resumed: tuple[RunFacts, ...]
    stale_after: timedelta
    outcomes: tuple[OutcomeCount, ...]
    tokens: Tokens
    failure_groups: Truncated[FailureGroup]
    freshness: tuple[Freshness, ...]
    drift: Drift
    warnings: tuple[RunWarning, ...]
    last: tuple[RunFacts, ...]

    @property
    def scope(self) -> str:
        """Return the run's coverage for alerts: `everything`, `some` (surfaces) or `chosen` (accounts)."""
        if self.run.kind == "sync":
            return "everything" if self.run.selection is None else "some"
        return "chosen"

    @property
    def tally(self) -> Tally:
        """Return the outcomes of all surfaces, counted by kind."""
        kinds = Counter[OutcomeKind]()
        for each in self.outcomes:
            kinds[each.outcome] += each.scans
        return Tally(kinds)


class RunUnknown(Exception):  # noqa: N818 - an error of the caller
    """The snapshot does not contain a run."""


def _facts(record: dict[str, Any]) -> RunFacts:
    ended = record["ended_at"]
    return RunFacts(
        run_id=record["run_id"],
        kind=record["kind"],
        selection=record["selection"],
        reason=record["reason"],
        state=RunState(record["state"]),
        started_at=record["started_at"],
        seconds=None if ended is None else (ended - record["started_at"]).total_seconds(),
        error_code=record["error_code"],
        detail=record["detail"],
        **{name: record[name] or 0 for name in ("accounts", "accounts_missing", "requests", *COUNTS)},
    )


def _some(records: Sequence[dict[str, Any]], build: Callable[..., T]) -> Truncated[T]:
    total = records[0]["total"] if records else 0
    return Truncated(total, tuple(build(**{k: v for k, v in record.items() if k != "total"}) for record in records))


def _read(
    snapshot: Snapshot, run_id: str, resumed_runs: tuple[str, ...], resumed: tuple[str, ...], now: datetime
) -> dict[str, Any]:
    def ask(query: str, *parameters: object) -> list[dict[str, Any]]:
        return snapshot.query(query, parameters).records()

    run = ask(_SQL["run"], run_id)
    if not run:
        message = f"the snapshot does not contain run {run_id}"
        raise RunUnknown(message)
    # Findings of interrupted runs are reported by the next run that ends.
    [begun] = ask(_SQL["begun"], [run_id, *resumed_runs])
    since = begun["since"]
    groups = failure_groups(lambda query, values: snapshot.query(query, values).rows, "main", run_id)
    return {
        "run": _facts(run[0]),
        "resumed": tuple(map(_facts, ask(_SQL["resumed"], list(resumed)))),
        "outcomes": tuple(
            OutcomeCount(each["surface"], OutcomeKind(each["outcome"]), each["scans"])
            for each in ask(_SQL["outcomes"], run_id)
        ),
        "tokens": Tokens(
            newly=_some(ask(_SQL["newly_expired"], since, SHOWN), Token),
            recovered=_some(ask(_SQL["recovered"], since, SHOWN), Token),
            still=_some(ask(_SQL["still_expired"], since, SHOWN), Token),
        ),
        "failure_groups": Truncated(len(groups), groups[:GROUPS]),
        "freshness": tuple(Freshness(**each) for each in ask(_SQL["freshness"], now)),
        "drift": Drift(
            new=_some(ask(_SQL["new_fields"], since, GROUPS), Field),
            retyped=_some(ask(_SQL["retyped_fields"], since, GROUPS), Field),
        ),
        "warnings": tuple(RunWarning(**each) for each in ask(_SQL["warnings"], run_id)),
        "stale_after": timedelta(seconds=snapshot.query(_SQL["stale_after"]).rows[0][0]),
        "last": tuple(map(_facts, ask(_SQL["last_runs"], RUNS))),
    }


def summarize(
    snapshot: Path, run_id: str, *, resumed_runs: tuple[str, ...], now: datetime, resumed: tuple[str, ...] = ()
) -> Summary:
    """Summarize a run that has ended and was published. `resumed` are the runs whose counts are listed separately.

    Raises SnapshotMissing, WarehouseUnusable, and RunUnknown if the snapshot is older than the run.
    """
    with open_snapshot(snapshot) as opened:
        found = _read(opened, run_id, resumed_runs, resumed, now)
    return Summary(resumed_runs=resumed_runs, **found)
