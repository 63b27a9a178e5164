"""A wrong clock: one that is behind is refused, and times stored by one that was ahead are moved back.

Sequence numbers define the order of runs and scans. Times are used only for ages and waits, which a time in the future
would make wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from duckdb import DuckDBPyConnection

from connectors.warehouse.runs.ledger import warn
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.clock import CLOCK_STEP
from models.runs import RunWarning
from models.tables import WAREHOUSE
from models.tables.columns import INSTANT

# Times that this machine's clock did not set, and times that may be in the future.
_NOT_OURS = {
    "core.media.published_at",
    "core.media_superseded.published_at",
    "core.completed_scans.covered_from",
    "ops.checkpoints.read_to",
    "core.run_outcomes.resume_after",
    "ops.cooldowns.resume_after",
}
_OURS = [
    (table.full_name, column.name)
    for table in WAREHOUSE.values()
    for column in table.columns
    if column.type == INSTANT and f"{table.full_name}.{column.name}" not in _NOT_OURS
]
_TIMES = " UNION ALL ".join(
    f"SELECT '{table}.{column}' AS name, {column} AS moment FROM {table}"  # noqa: S608 - declared names
    for table, column in _OURS
)

# Waits, and the hours between two scans, are counted from these times. They are moved to the present, because an
# earlier time would shorten the wait.
_COUNTED_FROM = {"since", "missed_from", "asked_at"}

# Each type of a field is stored with the time when it was found.
_MOVE_FIELD_TIMES = """
UPDATE core.fields SET json_types = (SELECT json_group_object(key, {moved}) FROM json_each(json_types))
WHERE json_types <> '{{}}'
"""

_RUNS = """
SELECT
    count(*), count(*) FILTER (started_at > {now}), min(started_at) FILTER (started_at > {now}),
    max(started_at) FILTER (started_at < {now})
FROM core.runs WHERE state <> 'failed'
"""

# Where no time can be trusted, times in the future are moved back this far: data of that age is out of date.
_LONG_AGO = timedelta(days=2)

# The least number of posts from the future that show that the clock is behind; fewer may be errors of their data.
_WITNESSES = 3

MOVED = "The clock was ahead when they were stored; they were moved back, preserving their order."
_FIX = "set this machine's clock; if it is correct, run `gramhouse doctor --repair`."


@dataclass(frozen=True, slots=True)
class Ahead:
    """The times of one column, `schema.table.column`, that are in the future."""

    column: str
    count: int
    first: datetime
    last: datetime


def last_of(found: Sequence[Ahead]) -> datetime:
    """Return the latest of the times found. Raises ValueError if there are none."""
    return max(one.last for one in found)


def described(found: Sequence[Ahead], now: datetime) -> str:
    """Return a sentence about times found after `now`."""
    count = sum(one.count for one in found)
    many = "1 stored time lies" if count == 1 else f"{count:,} stored times lie"
    return f"{many} after {now:%Y-%m-%d %H:%M} UTC, up to {last_of(found):%Y-%m-%d %H:%M}."


def _at(moment: datetime) -> str:
    return f"TIMESTAMPTZ '{moment.astimezone(UTC).isoformat()}'"


def find(db: DuckDBPyConnection, now: datetime) -> tuple[Ahead, ...]:
    """Return the columns that contain times after `now`."""
    found = f"SELECT name, count(*), min(moment), max(moment) FROM ({_TIMES}) WHERE moment > {_at(now)} GROUP BY name"  # noqa: S608
    return tuple(Ahead(*row) for row in sorted(db.execute(found).fetchall()))


def _is_behind(db: DuckDBPyConnection, found: Sequence[Ahead], now: datetime) -> bool:
    """Return whether `now` itself is wrong, rather than the times found after it.

    A clock that was ahead wrote the runs after `now` since the run before them. If they took longer than the time that
    has passed since then, it was not ahead. Otherwise most runs decide, and a single one only if the service published
    posts that it stored more than a day after `now`. Failed runs may have failed because of the clock.
    """
    ((runs, ahead, first, before),) = db.execute(_RUNS.format(now=_at(now))).fetchall()
    if first and before and last_of(found) - first > now - before + CLOCK_STEP:
        return True
    if ahead == runs == 1:
        posts = f"SELECT count(*) FROM core.media WHERE published_at > {_at(now + timedelta(days=1))}"  # noqa: S608
        return bool(value(db, posts) >= _WITNESSES)
    return bool(2 * ahead > runs)


def check_clock(db: DuckDBPyConnection, now: datetime) -> tuple[Ahead, ...]:
    """Return the columns that contain times after `now`. Raises WarehouseUnusable if the clock is behind."""
    found = find(db, now)
    if found and last_of(found) - now > CLOCK_STEP and _is_behind(db, found, now):
        message = (
            f"This machine's clock is behind: it shows {now:%Y-%m-%d %H:%M:%S} UTC, but most runs are later, up to"
            f" {last_of(found):%Y-%m-%d %H:%M:%S} UTC. Nothing was requested or changed. Fix: {_FIX}"
        )
        raise WarehouseUnusable(message)
    return found


def repair(connection: Connection, *, now: datetime) -> tuple[Ahead, ...]:
    """Move every time after `now` back, in the open transaction; return the columns that contained any.

    The moved times begin after the newest time before `now`, so nothing looks newer than it is. They keep their order
    and, if there is enough room before `now`, their distances. Cooldowns begin now, with their full length.
    """
    db = connection.db
    found = find(db, now)
    if not found:
        return found
    first = min(one.first for one in found)
    # A compaction may follow a clock that was ahead without moving its times back.
    earlier = f"WHERE moment < {_at(now)} AND name <> 'ops.raw_parts.retired_at'"
    trusted = value(db, f"SELECT max(moment) FROM ({_TIMES}) {earlier}")  # noqa: S608
    low = (trusted or now - _LONG_AGO) + timedelta(microseconds=1)
    span = last_of(found) - first
    scale = min(1.0, (now - low) / span) if span else 1.0

    def moved(at: str) -> str:
        after = f"floor(date_diff('microseconds', {_at(first)}, {at}) * {scale!r}::DOUBLE)::BIGINT"
        return f"if({at} > {_at(now)}, {_at(low)} + to_microseconds({after}), {at})"

    for table, since in (("core.run_outcomes", "ended_at"), ("ops.cooldowns", "asked_at")):
        waits = f"resume_after = {_at(now)} + (resume_after - {since})"
        db.execute(f"UPDATE {table} SET {waits} WHERE {since} > {_at(now)}")  # noqa: S608 - constants and times
    db.execute(_MOVE_FIELD_TIMES.format(moved=moved("(value ->> '$')::TIMESTAMPTZ")))
    for one in found:
        table, _, column = one.column.rpartition(".")
        target = _at(now) if column in _COUNTED_FROM else moved(column)
        db.execute(f"UPDATE {table} SET {column} = {target} WHERE {column} > {_at(now)}")  # noqa: S608
    return found


def repair_future_times(connection: Connection, run_id: str, *, now: datetime) -> bool:
    """Move times in the future back, and record a warning of the run; return whether any were moved.

    If instead `now` is behind, as when the clock was set back during the run, only the warning is recorded.
    """
    found = find(connection.db, now)
    if not found or last_of(found) - now <= CLOCK_STEP:
        return False
    is_behind = _is_behind(connection.db, found, now)
    if is_behind:
        code, hint = "clock_behind", f"{_FIX[0].upper()}{_FIX[1:]}"
        done = "This machine's clock was set back during this run, and is probably behind."
    else:
        repair(connection, now=now)
        code, hint, done = "times_in_future", "Check that this machine's clock is set by NTP.", MOVED
    detail = f"{described(found, now)} {done}"
    warn(connection, run_id, RunWarning(code, sum(one.count for one in found), detail, hint, makes_partial=True))
    return not is_behind
