"""The outcomes of the partitions of runs, as merged."""

from datetime import datetime

from duckdb import DuckDBPyConnection

from models.runs import ACCOUNTS_REJECTED, CACHED_ANSWER, ITEMS_REJECTED, OutcomeKind, Tally

_TALLY = """
SELECT outcome, count(*), count(*) FILTER (error_code IN (?, ?, ?))
FROM core.run_outcomes WHERE run_id = ? GROUP BY outcome
"""

_DOUBLE = """
SELECT resource, account_id, surface FROM core.run_outcomes WHERE run_id = ? GROUP BY ALL HAVING count(*) > 1 LIMIT 1
"""


def tally(db: DuckDBPyConnection, run_id: str) -> Tally:
    """Return the number of a run's outcomes by kind.

    Raises ValueError if a partition has more than one outcome, because the ledger is then inconsistent.
    """
    if double := db.execute(_DOUBLE, [run_id]).fetchall():
        raise ValueError(f"the ledger holds two outcomes of {double[0]} in run {run_id}")
    rows = db.execute(_TALLY, [ITEMS_REJECTED, ACCOUNTS_REJECTED, CACHED_ANSWER, run_id]).fetchall()
    return Tally({OutcomeKind(outcome): outcomes for outcome, outcomes, _ in rows}, sum(count for *_, count in rows))


def lift_waits(db: DuckDBPyConnection, *, after: datetime, now: datetime) -> None:
    """Let the waits of outcomes that end after `after` end now."""
    db.execute("UPDATE core.run_outcomes SET resume_after = ? WHERE resume_after > ?", [now, after])
