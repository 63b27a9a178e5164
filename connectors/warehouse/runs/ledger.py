"""The run ledger in DuckDB: one row per run, one outcome per partition and run."""

from dataclasses import asdict
from datetime import datetime, timedelta

from sqlalchemy import delete, func, or_, select, update

from connectors.warehouse.storage.appending import append
from connectors.warehouse.storage.compiled import core_outcomes, core_runs, core_warnings, run
from connectors.warehouse.storage.connection import Connection
from models.runs import ACCOUNTS_REJECTED, ITEMS_REJECTED, OutcomeKind, Run, RunState, RunWarning, Tally, resumed_runs

# The number of last runs among which the chain of unfinished runs to resume is searched.
_RECENT = 1000

_of_run, _of_outcome, _of_warning = core_runs.c, core_outcomes.c, core_warnings.c


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
    is_published = _of_run.published_at.is_not(None)
    query = (
        select(_of_run.run_id, _of_run.started_at, _of_run.state, _of_run.resumes, is_published)
        # Cursors and accounts of another service are not valid.
        .where(
            _of_run.kind == kind,
            _of_run.selection.is_not_distinct_from(selection),
            _of_run.base_url.is_not_distinct_from(base_url),
        )
        .order_by(_of_run.seq.desc())
        .limit(_RECENT)
    )
    runs = [
        Run(earlier_id, kind, started_at, RunState(state), resumes, published=published)
        for earlier_id, started_at, state, resumes, published in run(connection, query).fetchall()
    ]
    [(last,)] = run(connection, select(func.max(_of_run.seq))).fetchall()
    chain = resumed_runs(runs, now=now, within=within)
    row = {
        "run_id": run_id,
        "seq": (last or 0) + 1,
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
    append(connection, "core.runs", [row])
    return chain


def mark_interrupted(connection: Connection) -> None:
    """Mark runs whose process was killed: the caller holds the lock, so no run that is marked running still runs."""
    detail = "The process ended before the run: it was killed, or the machine failed."
    running = update(core_runs).where(_of_run.state == RunState.RUNNING)
    run(connection, running.values(state=RunState.INTERRUPTED, detail=detail))


def end(connection: Connection, run_id: str, state: RunState, /, *, now: datetime, **columns: object) -> None:
    """End a run with its state; `columns` are the values of other columns of `runs`."""
    ended = update(core_runs).where(_of_run.run_id == run_id)
    run(connection, ended.values(state=state, ended_at=now, **columns))


def warn(connection: Connection, run_id: str, warning: RunWarning) -> None:
    """Record a warning of a run; it replaces one with the same code."""
    run(connection, delete(core_warnings).where(_of_warning.run_id == run_id, _of_warning.code == warning.code))
    append(connection, "core.run_warnings", [{"run_id": run_id, **asdict(warning)}])


def warnings(connection: Connection, run_id: str) -> tuple[RunWarning, ...]:
    """Return a run's warnings, those that make it partial first."""
    columns = (_of_warning[name] for name in ("code", "count", "detail", "hint", "makes_partial"))
    query = select(*columns).where(_of_warning.run_id == run_id)
    rows = run(connection, query.order_by(_of_warning.makes_partial.desc(), _of_warning.code)).fetchall()
    return tuple(RunWarning(*row) for row in rows)


def mark_published(connection: Connection, *, now: datetime) -> None:
    """Record the publication of a snapshot with the data of all runs so far."""
    run(connection, update(core_runs).where(_of_run.published_at.is_(None)).values(published_at=now))


def tally(connection: Connection, run_id: str) -> Tally:
    """Return the number of a run's outcomes by kind.

    Raises ValueError if a partition has more than one outcome, because the ledger is then inconsistent.
    """
    partition = (_of_outcome.resource, _of_outcome.account_id, _of_outcome.surface)
    query = select(*partition).where(_of_outcome.run_id == run_id).group_by(*partition)
    doubles = run(connection, query.having(func.count() > 1).limit(1)).fetchone()
    if doubles is not None:
        raise ValueError(f"the ledger holds two outcomes of {doubles} in run {run_id}")
    rejecting = or_(_of_outcome.error_code == ITEMS_REJECTED, _of_outcome.error_code == ACCOUNTS_REJECTED)
    counts = select(_of_outcome.outcome, func.count(), func.count().filter(rejecting))
    rows = run(connection, counts.where(_of_outcome.run_id == run_id).group_by(_of_outcome.outcome)).fetchall()
    kinds = {OutcomeKind(outcome): outcomes for outcome, outcomes, _ in rows}
    return Tally(kinds, sum(count for _, _, count in rows))
