"""Runs: one row each, and one for the last command that was not a run."""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from connectors.state.database import driver_of
from models.runs import RUN_KINDS, Finding, RunState, Severity, began_within
from models.tables import run_warnings, runs

KILLED = "The process ended before the run: it was killed, or the machine failed."

Row = dict[str, Any]

_of = runs.c


def begin_run(
    connection: Connection,
    run_id: str,
    kind: str,
    /,
    *,
    now: datetime,
    within: timedelta,
    selection: str | None = None,
    base_url: str | None = None,
    **columns: object,
) -> tuple[str, ...]:
    """Add a new run; return what `find_resumed` does.

    The rows of starts that failed, and of other commands, are deleted. `columns` are the values of other columns of
    `runs`.
    """
    mark_interrupted(connection)
    delete_commands(connection)
    same = {"kind": kind, "selection": selection, "base_url": base_url}
    resumed = find_resumed(connection, now=now, within=within, **same)
    seq = select(func.coalesce(func.max(_of.seq), 0) + 1).scalar_subquery()
    first = {"run_id": run_id, "seq": seq, "resumes": next(iter(resumed), None)}
    connection.execute(insert(runs).values(state=RunState.RUNNING, started_at=now, **first, **same, **columns))
    return resumed


def delete_commands(connection: Connection) -> None:
    """Delete the rows of starts that failed, and of other commands."""
    connection.execute(delete(runs).where(_of.run_id.is_(None)))


def find_resumed(connection: Connection, /, *, now: datetime, within: timedelta, **same: str | None) -> tuple[str, ...]:
    """Return the ids of the unfinished runs that a run would resume, newest first.

    Runs are unfinished if they were interrupted, or have no snapshot. It resumes those since the last finished one
    that are the `same`: their kind, service (base_url) and selection (None: everything). It resumes none that began
    longer ago than `within`, or in the future: older results are out of date.
    """
    alike = [_of[name].is_not_distinct_from(value) for name, value in same.items()]
    query = select(runs).where(_of.run_id.is_not(None), *alike).order_by(_of.seq.desc())

    def is_unfinished(run: Any) -> bool:  # noqa: ANN401 - a row
        is_open = run.state == RunState.INTERRUPTED or run.published_at is None
        return is_open and began_within(run.started_at, now=now, within=within)

    return tuple(run.run_id for run in takewhile(is_unfinished, connection.execute(query)))


def mark_interrupted(connection: Connection) -> None:
    """Mark runs whose process was killed: the caller holds the lock, so no run that is marked running still runs."""
    running = update(runs).where(_of.state == RunState.RUNNING)
    connection.execute(running.values(state=RunState.INTERRUPTED, detail=KILLED))


def end_run(
    connection: Connection, run_id: str | None, state: RunState, /, *, now: datetime, **columns: object
) -> None:
    """End a run with its state; None: the command that runs. `columns` are the values of other columns of `runs`."""
    command = _of.run_id.is_(None) & (_of.state == RunState.RUNNING)
    connection.execute(
        update(runs)
        .where(command if run_id is None else _of.run_id == run_id)
        .values(state=state, ended_at=now, **columns)
    )


def mark_published(connection: Connection, *, now: datetime) -> None:
    """Record the publication of a snapshot with the data of all runs so far."""
    connection.execute(update(runs).where(_of.published_at.is_(None)).values(published_at=now))


def begin_command(connection: Connection, kind: str, *, pid: int, now: datetime) -> None:
    """Add the row of a command that scans nothing, instead of that of the last one."""
    mark_interrupted(connection)
    connection.execute(delete(runs).where(_of.run_id.is_(None), _of.kind.not_in(RUN_KINDS)))
    connection.execute(insert(runs).values(kind=kind, pid=pid, state=RunState.RUNNING, started_at=now))


def add_failed_start(
    connection: Connection, kind: str, *, pid: int, since: datetime, now: datetime, detail: str
) -> None:
    """Add the row of a command that failed before this process began a run, if so, `since`; without the lock, too."""
    begun = select(runs).where(_of.run_id.is_not(None), _of.pid == pid, _of.started_at >= since)
    if connection.execute(begun).first() is not None:
        return
    failed = {"kind": kind, "state": RunState.FAILED}
    connection.execute(delete(runs).filter_by(run_id=None, **failed))
    connection.execute(insert(runs).values(pid=pid, started_at=now, ended_at=now, detail=detail, **failed))


def last_command(connection: Connection) -> Row | None:
    """Return the row of the last command since the last run; the start of a run that failed stays the last one."""
    is_run = _of.kind.in_(RUN_KINDS)
    query = select(runs).where(_of.run_id.is_(None)).order_by(is_run.desc(), _of.number.desc()).limit(1)
    found = connection.execute(query).mappings().fetchone()
    return None if found is None else dict(found)


def read_runs(connection: Connection, *, limit: int | None = None) -> list[Row]:
    """Return the rows of the last runs, newest first; of all, without `limit`."""
    query = select(runs).where(_of.run_id.is_not(None)).order_by(_of.seq.desc()).limit(limit)
    return [dict(row) for row in connection.execute(query).mappings()]


def count_requests(connection: Connection, *, since: datetime) -> int:
    """Return how many requests the runs made that began since then; those of a killed run are unknown."""
    made = select(func.coalesce(func.sum(_of.requests), 0)).where(_of.started_at > since)
    return int(connection.execute(made).scalar_one())


def find_next_allowance(connection: Connection, most: int, *, per: timedelta, now: datetime) -> datetime:
    """Return when the runs that began within `per` will have made fewer than `most` requests. Now they made as many."""
    begun = select(_of.started_at).where(_of.started_at > now - per).order_by(_of.started_at)
    times: Iterable[datetime] = connection.execute(begun).scalars()
    return next(at + per for at in times if count_requests(connection, since=at) < most)


def warn(connection: Connection, run_id: str, warnings: Iterable[Finding]) -> None:
    """Record the warnings of a run."""
    for each in warnings:
        row = {"code": each.code, "count": each.count, "detail": each.text, "hint": each.fix or None}
        makes_partial = each.severity is Severity.ACTION
        connection.execute(insert(run_warnings).values(run_id=run_id, **row, makes_partial=makes_partial))


def delete_runs(connection: Connection, run_ids: Collection[str]) -> None:
    """Delete the rows of these runs."""
    for table in (runs, run_warnings):
        connection.execute(delete(table).where(table.c.run_id.in_(run_ids)))


def redact_texts(connection: Connection, redacted: Callable[[str], str]) -> None:
    """Redact the texts of runs that a person wrote, or that may name an account."""
    driver = driver_of(connection)
    driver.create_function("redacted", 1, lambda text: text and redacted(text))
    driver.execute("UPDATE runs SET reason = redacted(reason), detail = redacted(detail)")
    # A sync selects surfaces, and an account may be called like one.
    driver.execute("UPDATE runs SET selection = redacted(selection) WHERE kind <> 'sync'")
    driver.execute("UPDATE run_warnings SET detail = redacted(detail), hint = redacted(hint)")
