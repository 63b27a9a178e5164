"""The run ledger in DuckDB: one row per run, one outcome per partition and run."""

from dataclasses import asdict
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from models.runs import OutcomeKind, Run, RunState, RunWarning, Tally, resumed_runs
from models.tables import core_outcomes, core_runs, core_warnings, ops_staging

# The number of last runs among which the chain of unfinished runs to resume is searched.
_RECENT = 1000


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
    # Cursors and accounts of another service are not valid here. Runs of older versions have no address.
    same_service = or_(core_runs.c.base_url.is_(None), core_runs.c.base_url.is_not_distinct_from(base_url))
    rows = connection.execute(
        select(core_runs)
        .where(core_runs.c.kind == kind, core_runs.c.selection.is_not_distinct_from(selection), same_service)
        .order_by(core_runs.c.seq.desc())
        .limit(_RECENT)
    )
    runs = [
        Run(
            row.run_id,
            row.kind,
            row.started_at,
            RunState(row.state),
            row.resumes,
            published=row.published_at is not None,
        )
        for row in rows
    ]
    chain = resumed_runs(runs, now=now, within=within)
    connection.execute(
        insert(core_runs).values(
            run_id=run_id,
            seq=select(func.coalesce(func.max(core_runs.c.seq), 0) + 1).scalar_subquery(),
            kind=kind,
            selection=selection,
            reason=reason,
            base_url=base_url,
            accept_removals=accept_removals,
            state=RunState.RUNNING.value,
            started_at=now,
            resumes=chain[0] if chain else None,
            version=version,
        )
    )
    return chain


def mark_interrupted(connection: Connection) -> None:
    """Mark runs whose process was killed: the caller holds the lock, so no run that is marked running still runs."""
    connection.execute(
        update(core_runs)
        .where(core_runs.c.state == RunState.RUNNING.value)
        .values(
            state=RunState.INTERRUPTED.value,
            detail="The process ended before the run: it was killed, or the machine failed.",
        )
    )


def end(connection: Connection, run_id: str, state: RunState, /, *, now: datetime, **columns: object) -> None:
    """End a run with its state; `columns` are the values of other columns of `runs`."""
    connection.execute(
        update(core_runs).where(core_runs.c.run_id == run_id).values(state=state.value, ended_at=now, **columns)
    )


def warn(connection: Connection, run_id: str, warning: RunWarning) -> None:
    """Record a warning of a run; it replaces one with the same code."""
    same = core_warnings.c.run_id == run_id, core_warnings.c.code == warning.code
    connection.execute(delete(core_warnings).where(*same))
    connection.execute(insert(core_warnings).values(run_id=run_id, **asdict(warning)))


def warnings(connection: Connection, run_id: str) -> tuple[RunWarning, ...]:
    """Return a run's warnings, those that make it partial first."""
    table = core_warnings.c
    columns = (table.code, table["count"], table.detail, table.hint, table.makes_partial)
    rows = connection.execute(
        select(*columns).where(table.run_id == run_id).order_by(table.makes_partial.desc(), table.code)
    )
    return tuple(RunWarning(*row) for row in rows)


def mark_published(connection: Connection, *, now: datetime) -> None:
    """Record the publication of a snapshot with the data of all runs so far."""
    connection.execute(update(core_runs).where(core_runs.c.published_at.is_(None)).values(published_at=now))


def tally(connection: Connection, run_id: str) -> Tally:
    """Return the number of a run's outcomes by kind.

    Raises ValueError if a partition has more than one outcome, because the ledger is then inconsistent.
    """
    table = core_outcomes.c
    rows = connection.execute(
        select(table.outcome, func.count().label("outcomes")).where(table.run_id == run_id).group_by(table.outcome)
    ).all()
    doubles = connection.execute(
        select(table.resource, table.account_id, table.surface)
        .where(table.run_id == run_id)
        .group_by(table.resource, table.account_id, table.surface)
        .having(func.count() > 1)
        .limit(1)
    ).first()
    if doubles is not None:
        message = f"the ledger holds two outcomes of {tuple(doubles)} in run {run_id}"
        raise ValueError(message)
    return Tally({OutcomeKind(row.outcome): int(row.outcomes) for row in rows})


def unmerged(connection: Connection) -> tuple[str, ...]:
    """Return the ids of runs with staged pages that are not merged yet."""
    return tuple(connection.execute(select(ops_staging.c.run_id).distinct()).scalars())
