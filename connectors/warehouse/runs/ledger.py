"""The ledger of partitions in the warehouse: one outcome per partition and run, and the warnings of runs."""

from dataclasses import asdict
from datetime import datetime

from connectors.warehouse.storage.appending import append
from connectors.warehouse.storage.connection import Connection
from models.runs import ACCOUNTS_REJECTED, CACHED_ANSWER, ITEMS_REJECTED, OutcomeKind, RunWarning, Tally

_WARNINGS = """
SELECT code, count, detail, hint, makes_partial FROM core.run_warnings WHERE run_id = ?
ORDER BY makes_partial DESC, code
"""

_TALLY = """
SELECT outcome, count(*), count(*) FILTER (error_code IN (?, ?, ?))
FROM core.run_outcomes WHERE run_id = ? GROUP BY outcome
"""

_DOUBLE = """
SELECT resource, account_id, surface FROM core.run_outcomes WHERE run_id = ? GROUP BY ALL HAVING count(*) > 1 LIMIT 1
"""


def warn(connection: Connection, run_id: str, warning: RunWarning) -> None:
    """Record a warning of a run; it replaces one with the same code."""
    connection.db.execute("DELETE FROM core.run_warnings WHERE run_id = ? AND code = ?", [run_id, warning.code])
    append(connection, "core.run_warnings", [{"run_id": run_id, **asdict(warning)}])


def warnings(connection: Connection, run_id: str) -> tuple[RunWarning, ...]:
    """Return a run's warnings, those that make it partial first."""
    return tuple(RunWarning(*row) for row in connection.db.execute(_WARNINGS, [run_id]).fetchall())


def tally(connection: Connection, run_id: str) -> Tally:
    """Return the number of a run's outcomes by kind.

    Raises ValueError if a partition has more than one outcome, because the ledger is then inconsistent.
    """
    if double := connection.db.execute(_DOUBLE, [run_id]).fetchall():
        raise ValueError(f"the ledger holds two outcomes of {double[0]} in run {run_id}")
    rows = connection.db.execute(_TALLY, [ITEMS_REJECTED, ACCOUNTS_REJECTED, CACHED_ANSWER, run_id]).fetchall()
    return Tally({OutcomeKind(outcome): outcomes for outcome, outcomes, _ in rows}, sum(count for *_, count in rows))


def lift_waits(connection: Connection, *, after: datetime, now: datetime) -> None:
    """Let the waits of outcomes that end after `after` end now."""
    connection.db.execute("UPDATE core.run_outcomes SET resume_after = ? WHERE resume_after > ?", [now, after])
