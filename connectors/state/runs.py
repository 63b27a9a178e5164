"""Runs: one row each, and one for the last command that was not a run."""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from models.findings import Finding, Severity
from models.runs import Run, RunState, resumed_runs
from models.tables import run_warnings, runs

# The number of last runs among which the chain of unfinished runs to resume is searched.
_RECENT = 1000

KILLED = "The process ended before the run: it was killed, or the machine failed."

_RUN_KINDS = ("sync", "backfill")

Row = dict[str, Any]

_of = runs.c


def begin_run(
    connection: Connection,
    run_id: str,
    kind: str,
    *,
    pid: int,
    now: datetime,
    within: timedelta,
    version: str,
    selection: str | None = None,
    reason: str | None = None,
    base_url: str | None = None,
    accept_removals: bool = False,
) -> tuple[str, ...]:
    """Add a new run; return the ids of the unfinished runs that it resumes, newest first.

    It resumes only runs of the same kind and service with the same `selection` (None: everything). The rows of starts
    that failed, and of other commands, are deleted.
    """
    mark_interrupted(connection)
    connection.execute(delete(runs).where(_of.run_id.is_(None)))
    query = (
        select(_of.run_id, _of.started_at, _of.state, _of.resumes, _of.published_at.is_not(None))
        # Cursors and accounts of another service are not valid.
        .where(
            _of.kind == kind, _of.selection.is_not_distinct_from(selection), _of.base_url.is_not_distinct_from(base_url)
        )
        .order_by(_of.seq.desc())
        .limit(_RECENT)
    )
    earlier = [
        Run(earlier_id, kind, started_at, RunState(state), resumes, published=published)
        for earlier_id, started_at, state, resumes, published in connection.execute(query)
    ]
    last = connection.execute(select(func.max(_of.seq))).scalar_one()
    chain = resumed_runs(earlier, now=now, within=within)
    connection.execute(
        insert(runs).values(
            run_id=run_id,
            seq=(last or 0) + 1,
            kind=kind,
            pid=pid,
            selection=selection,
            reason=reason,
            base_url=base_url,
            accept_removals=accept_removals,
            state=RunState.RUNNING,
            started_at=now,
            resumes=chain[0] if chain else None,
            version=version,
        )
    )
    return chain


def mark_interrupted(connection: Connection) -> None:
    """Mark runs whose process was killed: the caller holds the lock, so no run that is marked running still runs."""
    running = update(runs).where(_of.state == RunState.RUNNING)
    connection.execute(running.values(state=RunState.INTERRUPTED, detail=KILLED))


def end_run(connection: Connection, run_id: str, state: RunState, /, *, now: datetime, **columns: object) -> None:
    """End a run with its state; `columns` are the values of other columns of `runs`."""
    connection.execute(update(runs).where(_of.run_id == run_id).values(state=state, ended_at=now, **columns))


def mark_published(connection: Connection, *, now: datetime) -> None:
    """Record the publication of a snapshot with the data of all runs so far."""
    connection.execute(update(runs).where(_of.published_at.is_(None)).values(published_at=now))


def begin_command(connection: Connection, kind: str, *, pid: int, now: datetime) -> int:
    """Add the row of a command that scans nothing, instead of that of the last one; return its number."""
    mark_interrupted(connection)
    connection.execute(delete(runs).where(_of.run_id.is_(None), _of.kind.not_in(_RUN_KINDS)))
    return _add_command(connection, kind, pid=pid, state=RunState.RUNNING, started_at=now)


def end_command(
    connection: Connection, number: int, state: RunState, *, now: datetime, detail: str | None = None
) -> None:
    """End a command with its state."""
    connection.execute(update(runs).where(_of.number == number).values(state=state, ended_at=now, detail=detail))


def add_failed_start(
    connection: Connection, kind: str, *, pid: int, since: datetime, now: datetime, detail: str
) -> None:
    """Add the row of a command that failed before this process began a run, if so, `since`; without the lock, too."""
    begun = select(runs).where(_of.run_id.is_not(None), _of.pid == pid, _of.started_at >= since)
    if connection.execute(begun).first() is not None:
        return
    connection.execute(delete(runs).where(_of.run_id.is_(None), _of.kind == kind, _of.state == RunState.FAILED))
    _add_command(connection, kind, pid=pid, state=RunState.FAILED, started_at=now, ended_at=now, detail=detail)


def _add_command(connection: Connection, kind: str, **columns: object) -> int:
    added = connection.execute(insert(runs).values(kind=kind, **columns).returning(_of.number))
    return int(added.scalar_one())


def last_command(connection: Connection) -> Row | None:
    """Return the row of the last command; a start of a run that failed stays the last until a run begins."""
    newest = select(runs).order_by(_of.number.desc()).limit(1)
    last_run = connection.execute(newest.where(_of.kind.in_(_RUN_KINDS))).mappings().fetchone()
    if last_run is None or last_run["run_id"] is not None:
        last_run = connection.execute(newest).mappings().fetchone()
    return None if last_run is None else dict(last_run)


def read_runs(connection: Connection, *, limit: int | None = None) -> list[Row]:
    """Return the rows of the last runs, newest first; of all, without `limit`."""
    query = select(runs).where(_of.run_id.is_not(None)).order_by(_of.seq.desc()).limit(limit)
    return [dict(row) for row in connection.execute(query).mappings()]


def read_run_numbers(connection: Connection) -> dict[str, int]:
    """Return the number of each run, by its id."""
    return {run_id: seq for run_id, seq in connection.execute(select(_of.run_id, _of.seq)) if run_id is not None}


def warn(connection: Connection, run_id: str, warnings: Iterable[Finding]) -> None:
    """Record the warnings of a run."""
    for each in warnings:
        row = {"code": each.code, "count": each.count, "detail": each.text, "hint": each.fix or None}
        makes_partial = each.severity is Severity.ACTION
        connection.execute(insert(run_warnings).values(run_id=run_id, **row, makes_partial=makes_partial))


def delete_runs(connection: Connection, run_ids: Collection[str]) -> None:
    """Delete the rows of these runs."""
    for run_id in run_ids:
        connection.execute(delete(runs).where(_of.run_id == run_id))
        connection.execute(delete(run_warnings).where(run_warnings.c.run_id == run_id))


def redact_texts(connection: Connection, redacted: Callable[[str], str]) -> None:
    """Redact the texts of runs that a person wrote, or that may name an account.

    A sync selects surfaces, and an account may be called like one.
    """
    for row in connection.execute(select(_of.number, _of.kind, _of.selection, _of.reason, _of.detail)).fetchall():
        names = ("reason", "detail") if row.kind == "sync" else ("selection", "reason", "detail")
        texts = {name: getattr(row, name) for name in names}
        after = {name: text and redacted(text) for name, text in texts.items()}
        if after != texts:
            connection.execute(update(runs).where(_of.number == row.number).values(**after))
    of = run_warnings.c
    for row in connection.execute(select(run_warnings)).fetchall():
        this = update(run_warnings).where(of.run_id == row.run_id, of.code == row.code)
        connection.execute(this.values(detail=redacted(row.detail), hint=row.hint and redacted(row.hint)))
