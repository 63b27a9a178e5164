"""The run ledger in DuckDB: one row per run, one outcome per partition and run."""

from dataclasses import asdict
from datetime import datetime, timedelta

from connectors.warehouse.storage.appending import append
from connectors.warehouse.storage.connection import Connection, value
from models.runs import ACCOUNTS_REJECTED, ITEMS_REJECTED, OutcomeKind, Run, RunState, RunWarning, Tally, resumed_runs
from models.tables import core_runs, core_warnings

# The number of last runs among which the chain of unfinished runs to resume is searched.
_RECENT = 1000

# Cursors and accounts of another service are not valid.
_LAST_RUNS = """
SELECT run_id, started_at, state, resumes, published_at IS NOT NULL FROM core.runs
WHERE kind = ? AND selection IS NOT DISTINCT FROM ? AND base_url IS NOT DISTINCT FROM ?
ORDER BY seq DESC LIMIT ?
"""

_DOUBLES = """
SELECT resource, account_id, surface FROM core.run_outcomes WHERE run_id = ? GROUP BY ALL HAVING count(*) > 1 LIMIT 1
"""


def begin(
    connection: Connection,
    run_id: str,
    kind: str,
    *,
    now: datetime,
    within: timedelta,
    version: str,
    selection: str | None = None,
    reason: str | None = None,
    base_url: str | None = None,
    accept_removals: bool = False,
) -> tuple[str, ...]:
    """Add a new run; return the ids of the unfinished runs that it resumes, newest first.

    It resumes only runs of the same kind and service with the same `selection` (None: everything).

    Runs whose process was killed are marked as interrupted.
    """
    mark_interrupted(connection)
    rows = connection.db.execute(_LAST_RUNS, [kind, selection, base_url, _RECENT]).fetchall()
    runs = [
        Run(earlier_id, kind, started_at, RunState(state), resumes, published=published)
        for earlier_id, started_at, state, resumes, published in rows
    ]
    chain = resumed_runs(runs, now=now, within=within)
    run = {
        "run_id": run_id,
        "seq": value(connection.db, "SELECT coalesce(max(seq), 0) + 1 FROM core.runs"),
        "kind": kind,
        "selection": selection,
        "reason": reason,
        "base_url": base_url,
        "accept_removals": accept_removals,
        "state": RunState.RUNNING.value,
        "started_at": now,
        "resumes": chain[0] if chain else None,
        "version": version,
    }
    append(connection, core_runs, [run])
    return chain


def mark_interrupted(connection: Connection) -> None:
    """Mark runs whose process was killed: the caller holds the lock, so no run that is marked running still runs."""
    detail = "The process ended before the run: it was killed, or the machine failed."
    connection.db.execute(
        "UPDATE core.runs SET state = ?, detail = ? WHERE state = ?",
        [RunState.INTERRUPTED.value, detail, RunState.RUNNING.value],
    )


def end(connection: Connection, run_id: str, state: RunState, /, *, now: datetime, **columns: object) -> None:
    """End a run with its state; `columns` are the values of other columns of `runs`."""
    values = {"state": state.value, "ended_at": now, **columns}
    assignments = ", ".join(f"{name} = ?" for name in values)
    connection.db.execute(f"UPDATE core.runs SET {assignments} WHERE run_id = ?", [*values.values(), run_id])  # noqa: S608


def warn(connection: Connection, run_id: str, warning: RunWarning) -> None:
    """Record a warning of a run; it replaces one with the same code."""
    connection.db.execute("DELETE FROM core.run_warnings WHERE run_id = ? AND code = ?", [run_id, warning.code])
    append(connection, core_warnings, [{"run_id": run_id, **asdict(warning)}])


def warnings(connection: Connection, run_id: str) -> tuple[RunWarning, ...]:
    """Return a run's warnings, those that make it partial first."""
    query = """
SELECT code, "count", detail, hint, makes_partial FROM core.run_warnings
WHERE run_id = ? ORDER BY makes_partial DESC, code
"""
    return tuple(RunWarning(*row) for row in connection.db.execute(query, [run_id]).fetchall())


def mark_published(connection: Connection, *, now: datetime) -> None:
    """Record the publication of a snapshot with the data of all runs so far."""
    connection.db.execute("UPDATE core.runs SET published_at = ? WHERE published_at IS NULL", [now])


def tally(connection: Connection, run_id: str) -> Tally:
    """Return the number of a run's outcomes by kind.

    Raises ValueError if a partition has more than one outcome, because the ledger is then inconsistent.
    """
    doubles = connection.db.execute(_DOUBLES, [run_id]).fetchone()
    if doubles is not None:
        message = f"the ledger holds two outcomes of {doubles} in run {run_id}"
        raise ValueError(message)
    counts = """
SELECT outcome, count(*), count(*) FILTER (error_code IN (?, ?)) FROM core.run_outcomes WHERE run_id = ?
GROUP BY outcome
"""
    rows = connection.db.execute(counts, [ITEMS_REJECTED, ACCOUNTS_REJECTED, run_id]).fetchall()
    kinds = {OutcomeKind(outcome): outcomes for outcome, outcomes, _ in rows}
    return Tally(kinds, sum(rejecting for _, _, rejecting in rows))
