"""The outcomes of the partitions of runs, and the incomplete ones by cause, in the warehouse or in an open snapshot."""

from dataclasses import dataclass
from datetime import datetime

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.quoting import literal
from connectors.warehouse.storage.statements import statements
from models.runs import ACCOUNTS_REJECTED, CACHED_ANSWER, ITEMS_REJECTED, LONG_COOLDOWN, OutcomeKind, Tally

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class Example:
    """One incomplete scan; `surface` and `account_id` are empty for the catalogue."""

    ig_username: str
    surface: str
    correlation_id: str | None
    account_id: str = ""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Scans with the same outcome and error code, with up to three examples; `detail` is the first one's.

    `usernames` are those of all its accounts.
    """

    outcome: OutcomeKind
    error_code: str
    scans: int
    accounts: int
    resume_after: datetime | None
    detail: str
    examples: tuple[Example, ...]
    usernames: tuple[str, ...] = ()

    @property
    def example(self) -> Example:
        """Return the first example."""
        return self.examples[0]


def count_outcomes(db: DuckDBPyConnection, run_id: str) -> Tally:
    """Return the number of a run's outcomes by kind."""
    rows = db.execute(_SQL["tally"], [[ITEMS_REJECTED, ACCOUNTS_REJECTED, CACHED_ANSWER], run_id]).fetchall()
    return Tally({OutcomeKind(outcome): outcomes for outcome, outcomes, _ in rows}, sum(count for *_, count in rows))


def lift_waits(db: DuckDBPyConnection, *, after: datetime, now: datetime) -> None:
    """Let the waits of outcomes that end after `after` end now."""
    db.execute("UPDATE core.run_outcomes SET resume_after = ? WHERE resume_after > ?", [now, after])


def read_failures(db: DuckDBPyConnection, outcomes: str, *, now: datetime) -> tuple[FailureGroup, ...]:
    """Return the incomplete outcomes of a query for rows of `run_outcomes`, by cause.

    The catalogue, and scans with a long cooldown as of `now`, are in separate groups.
    """
    long = f"coalesce(o.resume_after > TIMESTAMPTZ '{(now + LONG_COOLDOWN).isoformat()}', false)"
    rows = db.execute(_SQL["groups"].replace("{outcomes}", outcomes).replace("{long}", long)).fetchall()
    return tuple(
        FailureGroup(
            OutcomeKind(outcome),
            error_code,
            scans,
            accounts,
            resume_after,
            detail or "",
            tuple(Example(**each) for each in examples),
            tuple(usernames or ()),
        )
        for outcome, error_code, scans, accounts, resume_after, detail, examples, usernames in rows
    )


def read_run_failures(db: DuckDBPyConnection, run_id: str, *, now: datetime) -> tuple[FailureGroup, ...]:
    """Return the failure groups of a run."""
    return read_failures(db, f"FROM core.run_outcomes WHERE run_id = {literal(run_id)}", now=now)
