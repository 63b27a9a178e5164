"""What became of a run: outcomes of its partitions, the incomplete ones by cause, and what else people should know."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.run_counts import read_counts
from connectors.warehouse.storage.quoting import literal, quoted
from connectors.warehouse.storage.statements import statements
from models.mapping import Mapping as MediaMapping
from models.runs import (
    ACCOUNTS_REJECTED,
    CACHED_ANSWER,
    ITEMS_REJECTED,
    LONG_COOLDOWN,
    Finding,
    OutcomeKind,
    RunState,
    Severity,
    Tally,
)

_SQL = statements(__name__)


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Scans with the same outcome and error code; `detail` is the first one's, `usernames` are of all its accounts.

    Up to three `examples` have `ig_username`, `surface`, `correlation_id` and `account_id`.
    """

    outcome: OutcomeKind
    error_code: str
    scans: int
    accounts: int
    resume_after: datetime | None
    detail: str
    examples: tuple[dict[str, str | None], ...]
    usernames: tuple[str, ...] = ()

    @property
    def is_catalogue(self) -> bool:
        """Return whether it is the scan of the account catalogue."""
        return not self.examples[0]["surface"]

    @property
    def correlation_id(self) -> str | None:
        """Return that of the first example."""
        return self.examples[0]["correlation_id"]


def read_run(db: DuckDBPyConnection, run_id: str) -> dict[str, Any]:
    """Return what the warehouse or a snapshot has in `runs` of a run, with its state, its counts and its changes."""
    cursor = db.execute(_SQL["run"], [run_id])
    names = [name for name, *_ in cursor.description or ()]
    [row] = cursor.fetchall()
    run = dict(zip(names, row, strict=True))
    return {**run, "state": RunState(run["state"]), **read_counts(db, run_id)}


def read_warnings(db: DuckDBPyConnection, run_id: str, *, is_last: bool = False) -> tuple[Finding, ...]:
    """Return the warnings of a run; with `is_last`, all that hold after it, which is the last one of a snapshot."""
    rows = db.execute(_SQL["warnings"], {"run_id": run_id, "is_last": is_last}).fetchall()
    return tuple(Finding(code, Severity(severity), text, fix, count=count) for code, severity, text, fix, count in rows)


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
            OutcomeKind(outcome), code, scans, accounts, resume_after, detail, tuple(examples), tuple(usernames)
        )
        for outcome, code, scans, accounts, resume_after, detail, examples, usernames in rows
    )


def read_run_failures(db: DuckDBPyConnection, run_id: str, *, now: datetime) -> tuple[FailureGroup, ...]:
    """Return the failure groups of a run."""
    return read_failures(db, f"FROM core.run_outcomes WHERE run_id = {literal(run_id)}", now=now)


def read_report(db: DuckDBPyConnection, run_id: str, *, now: datetime, resumed: Collection[str] = ()) -> dict[str, Any]:
    """Return what the warehouse or a snapshot says of a run, by the names of the fields of RunReport, without data.

    `resumed` are other runs, newest first.
    """
    return read_run(db, run_id) | {
        "outcomes": count_outcomes(db, run_id),
        "failure_groups": read_run_failures(db, run_id, now=now),
        "warnings": read_warnings(db, run_id),
        "resumed": tuple(read_run(db, one) for one in reversed([*resumed])),
        "as_of": now,
    }


class MissingAccounts(NamedTuple):
    """Known accounts that the last complete catalogue did not list; about `undecided` of them it decided nothing."""

    missing: int
    known: int
    undecided: int
    is_empty: bool
    names: Sequence[str]


def find_missing_accounts(db: DuckDBPyConnection) -> MissingAccounts:
    """Return which known accounts are missing from the catalogue."""
    [row] = db.execute(_SQL["missing_accounts"]).fetchall()
    return MissingAccounts(*row)


def read_scan_findings(db: DuckDBPyConnection) -> Mapping[str, Sequence[str]]:
    """Return the accounts, or their names, with records that contradict each other, by finding."""
    return dict(db.execute(_SQL["findings"]).fetchall())


def read_names(db: DuckDBPyConnection, account_ids: Collection[str]) -> Sequence[str]:
    """Return the names of accounts."""
    return [name for (name,) in db.execute(_SQL["names"], [list(account_ids)]).fetchall()]


def find_lone_change(db: DuckDBPyConnection, run_seqs: Collection[int], *, accounts: int) -> str | None:
    """Return the column, or the path of the field, that alone changed most items in each of these runs.

    Each listed this number of accounts.
    """
    found = db.execute(_SQL["changed_alone"], [list(run_seqs), accounts]).fetchone()
    return None if found is None else found[0]


def count_unread_values(db: DuckDBPyConnection, mapping: MediaMapping) -> Mapping[str, int]:
    """Return how many listed items have a value for a mapped column that is not of its type, by column.

    The column is NULL then, and the value is that of a field.
    """
    counts, held = Counter[str](), db.execute(_SQL["held"]).fetchall()
    for column in mapping.columns:
        if names := [quoted(name) for path, name in held if path in column.paths]:
            has_one = " OR ".join(f"{name} IS NOT NULL" for name in names)
            query = _SQL["not_read"].format(column=quoted(column.column), has_one=has_one)
            [(items,)] = db.execute(query).fetchall()
            counts[column.column] += items
    return +counts
