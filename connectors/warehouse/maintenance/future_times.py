"""A wrong clock: one that is behind is refused, and times stored by one that was ahead are moved back.

Sequence numbers define the order of runs and scans. Times are used only for ages and waits, which a time in the future
would make wrong.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from duckdb import DuckDBPyConnection

from connectors.warehouse.runs.ledger import warn
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.declared import ITEM_TABLES, TABLES, of_all_items
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.clock import CLOCK_STEP
from models.runs import RunWarning

# Times of the service, and the ends of waits, which move with their beginnings.
_NOT_OURS = {
    *(f"core.{table}{suffix}.published_at" for table in ITEM_TABLES for suffix in ("", "_superseded")),
    *("covered_from", "read_to", "resume_after"),
}
_OURS = {
    table: [
        name
        for name, type_ in declared.types.items()
        if type_ == "TIMESTAMPTZ" and not {name, f"{table}.{name}"} & _NOT_OURS
    ]
    for table, declared in TABLES.items()
}
_TIMES = " UNION ALL ".join(
    f"SELECT '{table}.{column}' AS name, {column} AS moment FROM {table}"  # noqa: S608 - declared names
    for table, columns in _OURS.items()
    for column in columns
)

_RUNS = """
SELECT
    count(*), count(*) FILTER (started_at > $now), min(started_at) FILTER (started_at > $now),
    max(started_at) FILTER (started_at < $now)
FROM core.runs WHERE state <> 'failed'
"""

# The least number of posts from the future that show that the clock is behind; fewer may be errors of their data.
_WITNESSES = 3

MOVED = "The clock was ahead when they were stored; they were moved back, preserving their order."
_FIX = "set this machine's clock; if it is correct, run `gramhouse doctor --repair`."


@dataclass(frozen=True, slots=True)
class Ahead:
    """Stored times that are in the future: how many, the first and the last. `moved_to`: from when on they are now."""

    count: int
    first: datetime
    last: datetime
    moved_to: datetime | None = None

    def after(self, now: datetime) -> str:
        """Return a sentence about them."""
        many = "1 stored time lies" if self.count == 1 else f"{self.count:,} stored times lie"
        return f"{many} after {now:%Y-%m-%d %H:%M} UTC, up to {self.last:%Y-%m-%d %H:%M}."


def find(db: DuckDBPyConnection, now: datetime) -> Ahead | None:
    """Return the times after `now`; None if there are none."""
    query = f"SELECT count(*), min(moment), max(moment) FROM ({_TIMES}) WHERE moment > $now"  # noqa: S608 - constants
    ((count, first, last),) = db.execute(query, {"now": now}).fetchall()
    return Ahead(count, first, last) if count else None


def _is_behind(db: DuckDBPyConnection, found: Ahead, now: datetime) -> bool:
    """Return whether `now` itself is wrong, rather than the times found after it.

    A clock that was ahead wrote the runs after `now` since the run before them. If they took longer than the time that
    has passed since then, it was not ahead. Otherwise most runs decide, and a single one only if the service published
    posts that it stored more than a day after `now`. Failed runs may have failed because of the clock.
    """
    ((runs, ahead, first, before),) = db.execute(_RUNS, {"now": now}).fetchall()
    if first and before and found.last - first > now - before + CLOCK_STEP:
        return True
    if ahead == runs == 1:
        query = f"SELECT count(*) >= ? FROM ({of_all_items('published_at')}) WHERE published_at > ?"  # noqa: S608
        return bool(db.execute(query, [_WITNESSES, now + timedelta(days=1)]).fetchall()[0][0])
    return bool(2 * ahead > runs)


def check_clock(db: DuckDBPyConnection, now: datetime) -> Ahead | None:
    """Return the times after `now`, if any. Raises WarehouseUnusable if the clock is behind."""
    found = find(db, now)
    if found and found.last - now > CLOCK_STEP and _is_behind(db, found, now):
        raise WarehouseUnusable(
            f"This machine's clock is behind: it shows {now:%Y-%m-%d %H:%M:%S} UTC, but most runs are later, up to"
            f" {found.last:%Y-%m-%d %H:%M:%S} UTC. Nothing was requested or changed. Fix: {_FIX}"
        )
    return found


def repair(connection: Connection, *, now: datetime) -> Ahead | None:
    """Move every time after `now` back, in the open transaction; return what they were, None if there were none.

    The moved times begin after the newest time before `now`, or two days ago, so nothing looks newer than it is. They
    keep their order and, if there is enough room before `now`, their distances. Waits begin now, with their full
    length, and so do the hours between two scans.
    """
    db = connection.db
    if not (found := find(db, now)):
        return None
    present = f"TIMESTAMPTZ '{now.astimezone(UTC)}'"
    # A compaction may follow a clock that was ahead without moving its times back.
    trusted = value(
        db,
        f"SELECT max(moment) FROM ({_TIMES}) WHERE moment < {present} AND name <> 'ops.raw_parts.retired_at'",  # noqa: S608
    )
    low = (trusted or now - timedelta(days=2)) + timedelta(microseconds=1)
    scale = min(1.0, (now - low) / max(found.last - found.first, timedelta.resolution))
    past = f"floor(date_diff('microseconds', TIMESTAMPTZ '{found.first}', t) * {scale!r}::DOUBLE)::BIGINT"
    target = f"TIMESTAMPTZ '{low}' + to_microseconds({past})"
    db.execute(f"CREATE OR REPLACE TEMP MACRO moved(t) AS if(t > {present}, {target}, t)")
    db.execute(f"CREATE OR REPLACE TEMP MACRO begun(t) AS if(t > {present}, {present}, t)")
    for table, columns in _OURS.items():
        changes = [f"{name} = {'begun' if name == 'missing_since' else 'moved'}({name})" for name in columns]
        if table == "core.run_outcomes":
            waits = f"{present} + (resume_after - ended_at)"
            changes.append(f"resume_after = if(ended_at > {present}, {waits}, resume_after)")
        if changes:
            db.execute(f"UPDATE {table} SET {', '.join(changes)} WHERE greatest({', '.join(columns)}) > {present}")  # noqa: S608
    # Each type of a field is stored with the time when it was found.
    kinds = "SELECT json_group_object(key, moved((value ->> '$')::TIMESTAMPTZ)) FROM json_each(json_types)"
    db.execute(f"UPDATE core.fields SET json_types = ({kinds}) WHERE json_types <> '{{}}'")  # noqa: S608
    return replace(found, moved_to=low)


def repair_future_times(connection: Connection, run_id: str, *, now: datetime) -> Ahead | None:
    """Move times in the future back, and record a warning of the run; return what they were if any were moved.

    If instead `now` is behind, as when the clock was set back during the run, only the warning is recorded.
    """
    found = find(connection.db, now)
    if not found or found.last - now <= CLOCK_STEP:
        return None
    moved = None
    if _is_behind(connection.db, found, now):
        done = "This machine's clock was set back during this run, and is probably behind."
        code, hint = "clock_behind", _FIX.capitalize()
    else:
        moved = repair(connection, now=now)
        code, hint, done = "times_in_future", "Check that this machine's clock is set by NTP.", MOVED
    warn(connection, run_id, RunWarning(code, found.count, f"{found.after(now)} {done}", hint, makes_partial=True))
    return moved
