"""What became of a run: outcomes of its partitions, the incomplete ones by cause, and what else people should know."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.sql import quoted, statements
from models.mapping import MediaMapping
from models.runs import (
    LONG_COOLDOWN,
    Finding,
    OutcomeKind,
    RunState,
    Severity,
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
    examples: Sequence[dict[str, str | None]]
    usernames: Sequence[str] = ()

    @property
    def is_catalogue(self) -> bool:
        """Return whether it is the scan of the account catalogue."""
        return not self.examples[0]["surface"]


def _record(db: DuckDBPyConnection, name: str, parameters: Sequence[object] = ()) -> dict[str, Any]:
    """Return the row of a query by the names of its columns."""
    cursor = db.execute(_SQL[name], parameters)
    names = [name for name, *_ in cursor.description or ()]
    [row] = cursor.fetchall()
    return dict(zip(names, row, strict=True))


def read_counts(db: DuckDBPyConnection, run_id: str) -> dict[str, Any]:
    """Return the `pages`, `items` and `accounts_removed` of a run, and by name the changes of its `media`."""
    return _record(db, "counts", [run_id])


def read_warnings(db: DuckDBPyConnection, run_id: str, *, is_last: bool = False) -> tuple[Finding, ...]:
    """Return the warnings of a run; with `is_last`, all that hold after it, which is the last one of a snapshot."""
    rows = db.execute(_SQL["warnings"], {"run_id": run_id, "is_last": is_last}).fetchall()
    return tuple(Finding(code, Severity(severity), text, fix, count=count) for code, severity, text, fix, count in rows)


def count_outcomes(db: DuckDBPyConnection, run_id: str) -> Counter[OutcomeKind]:
    """Return the number of a run's outcomes by kind."""
    query = "SELECT outcome, count(*) FROM core.run_outcomes WHERE run_id = ? GROUP BY outcome"
    return Counter({OutcomeKind(outcome): number for outcome, number in db.execute(query, [run_id]).fetchall()})


def read_failures(db: DuckDBPyConnection, run_id: str | None, *, now: datetime) -> tuple[FailureGroup, ...]:
    """Return the incomplete outcomes of a run by cause; without one, the last ones of each partition of a snapshot.

    The catalogue, and scans with a long cooldown as of `now`, are in separate groups.
    """
    outcomes = "FROM core.run_outcomes WHERE run_id = $run_id"
    if run_id is None:
        outcomes = "FROM last_outcomes WHERE $run_id IS NULL"
    values = {"run_id": run_id, "long": now + LONG_COOLDOWN}
    rows = db.execute(_SQL["groups"].replace("{outcomes}", outcomes), values).fetchall()
    return tuple(FailureGroup(OutcomeKind(outcome), *facts) for outcome, *facts in rows)


def read_report(db: DuckDBPyConnection, run_id: str, *, now: datetime, resumed: Collection[str] = ()) -> dict[str, Any]:
    """Return what the warehouse or a snapshot says of a run, by the names of the fields of RunReport, without data.

    `resumed` are other runs, newest first.
    """
    last, *others = (_record(db, "run", [one]) | read_counts(db, one) for one in (run_id, *reversed([*resumed])))
    return last | {
        "state": RunState(last["state"]),
        "outcomes": count_outcomes(db, run_id),
        "failure_groups": read_failures(db, run_id, now=now),
        "warnings": read_warnings(db, run_id),
        "resumed": tuple(others),
        "as_of": now,
    }


def find_missing_accounts(db: DuckDBPyConnection) -> dict[str, Any]:
    """Return the `names` of known accounts that the last complete catalogue did not list, and how many are `missing`.

    So many are `known`; about `undecided` of the missing ones it decided nothing; `is_empty` is the catalogue itself.
    """
    return _record(db, "missing_accounts")


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
    held, counts = db.execute(_SQL["held"]).fetchall(), dict[str, str]()
    for column in mapping.columns:
        if has_one := " OR ".join(f"{quoted(name)} IS NOT NULL" for path, name in held if path in column.paths):
            counts[column.column] = f"count(*) FILTER ({quoted(column.column)} IS NULL AND ({has_one}))"
    if not counts:
        return {}
    query = f"SELECT {', '.join(counts.values())} FROM core.media WHERE removed_at IS NULL"  # noqa: S608 - quoted
    [row] = db.execute(query).fetchall()
    return {name: items for name, items in zip(counts, row, strict=True) if items}
