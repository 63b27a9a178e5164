"""Finds stored times that are in the future, because the clock was ahead, and moves them back.

Sequence numbers define the order of runs and scans. Times are used only for ages and waits, which a time in the future
would make wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from duckdb import DuckDBPyConnection

from connectors.warehouse.runs.ledger import warn
from connectors.warehouse.schema.field_registry import read_mapping, read_registry, write_registry
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.quoting import literal
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

# Times that are stored later, for older rows: they do not show when the rows were written.
_NO_WITNESS = {"core.runs.published_at"}

# Waits, and the hours between two scans, are counted from these times. They are moved to the present, because an
# earlier time would shorten the wait.
_COUNTED_FROM = {"since", "missed_from", "asked_at"}

# The age of an unfinished scan is then unknown: it is resumed, and then repeated from the first page.
_AGE_UNKNOWN = {"ops.checkpoints.started_at"}

# The least number of posts in the future from which the clock is considered wrong; fewer may be errors of their data.
_WITNESSES = 3

# A difference that NTP may correct at any time.
_TOLERATED = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Ahead:
    """The times of one column, `schema.table.column`, that are in the future."""

    column: str
    count: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class Repair:
    """The times found in the future. `behind`: this machine's clock seems to be behind, so nothing was changed."""

    found: tuple[Ahead, ...] = ()
    behind: bool = False

    @property
    def count(self) -> int:
        """The number of times that are, or were, in the future."""
        return sum(one.count for one in self.found)

    def last(self) -> datetime:
        """Return the latest of them. Raises ValueError if there are none."""
        return max(one.last for one in self.found)


def _columns() -> list[tuple[str, str]]:
    return [
        (table.full_name, column.name)
        for table in WAREHOUSE.values()
        for column in table.columns
        if column.type == INSTANT and f"{table.full_name}.{column.name}" not in _NOT_OURS
    ]


def _at(moment: datetime) -> str:
    return f"TIMESTAMPTZ {literal(moment.astimezone(UTC).isoformat())}"


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def find(db: DuckDBPyConnection, now: datetime) -> tuple[Ahead, ...]:
    """Return the columns that contain times after `now`."""
    times = " UNION ALL ".join(
        f"SELECT '{table}.{column}' AS name, {column} AS moment FROM {table} WHERE {column} > {_at(now)}"  # noqa: S608
        for table, column in _columns()
    )
    found = f"SELECT name, count(*), min(moment), max(moment) FROM ({times}) GROUP BY name"  # noqa: S608
    return tuple(Ahead(*row) for row in sorted(db.execute(found).fetchall()))


def _is_behind(db: DuckDBPyConnection, now: datetime) -> bool:
    """Return whether `now` itself is probably wrong.

    That is, if most runs began after it, and there are more than two runs, or at least `_WITNESSES` posts were
    published more than a day after it.
    """
    ahead, runs = db.execute(
        f"SELECT count(*) FILTER (started_at > {_at(now)}), count(*) FROM core.runs WHERE state <> 'running'"  # noqa: S608
    ).fetchall()[0]
    if 2 * ahead <= runs:
        return False
    posts = f"SELECT count(*) FROM core.media WHERE published_at > {_at(now + timedelta(days=1))}"  # noqa: S608
    return bool(runs > 2 or value(db, posts) >= _WITNESSES)


def _trusted(db: DuckDBPyConnection, now: datetime) -> datetime | None:
    newest = " UNION ALL ".join(
        f"SELECT max({column}) AS newest FROM {table} WHERE {column} < {_at(now)}"  # noqa: S608
        for table, column in _columns()
        if f"{table}.{column}" not in _NO_WITNESS
    )
    found: datetime | None = value(db, f"SELECT max(newest) FROM ({newest})")  # noqa: S608
    return found


def repair(connection: Connection, *, now: datetime, unknown: datetime, insist: bool = False) -> Repair:
    """Move every time after `now` back, in the open transaction; return what was found.

    The moved times begin after the newest trusted time. They keep their order and, if there is enough room before
    `now`, their distances. If there is no trusted time, and for unfinished scans, `unknown` is used: a time so long ago
    that data of that age is out of date. Cooldowns begin now, with their full length.

    Nothing is moved if `now` itself is probably wrong, unless `insist`.
    """
    db = connection.db
    found = find(db, now)
    if not found:
        return Repair()
    if not insist and _is_behind(db, now):
        return Repair(found, behind=True)
    low = (_trusted(db, now) or unknown) + timedelta(microseconds=1)
    first = _micros(min(one.first for one in found))
    span = _micros(max(one.last for one in found)) - first
    scale = min(1.0, (_micros(now) - _micros(low)) / span) if span else 1.0

    def moved(moment: datetime) -> datetime:
        return low + timedelta(microseconds=int((_micros(moment) - first) * scale)) if moment > now else moment

    _move_registry(connection, moved)
    for table, anchor in (("core.run_outcomes", "ended_at"), ("ops.cooldowns", "asked_at")):
        db.execute(
            f"UPDATE {table} SET resume_after = {_at(now)} + (resume_after - {anchor}) WHERE {anchor} > {_at(now)}"  # noqa: S608
        )
    for one in found:
        table, _, column = one.column.rpartition(".")
        target = f"make_timestamptz({_micros(low)} + trunc((epoch_us({column}) - {first}) * {scale!r}::DOUBLE)::BIGINT)"
        if column in _COUNTED_FROM:
            target = _at(now)
        elif one.column in _AGE_UNKNOWN:
            target = _at(min(low, unknown))
        db.execute(f"UPDATE {table} SET {column} = {target} WHERE {column} > {_at(now)}")  # noqa: S608
    return Repair(found)


def _move_registry(connection: Connection, moved: Callable[[datetime], datetime]) -> None:
    known = read_registry(connection)
    registry = {
        key: replace(field, json_types={kind: moved(at) for kind, at in field.json_types.items()})
        for key, field in known.items()
    }
    if registry != known:
        write_registry(connection, registry, read_mapping(connection))


def repair_future_times(connection: Connection, run_id: str, *, now: datetime, within: timedelta) -> None:
    """Move times in the future back, and record a warning of a run, unless they are at most two minutes ahead."""
    found = repair(connection, now=now, unknown=unknown_age(now, within))
    if not found.count or (not found.behind and found.last() - now <= _TOLERATED):
        return
    if found.behind:
        code, hint = "clock_behind", "Set this machine's clock; if it is correct, run `gramhouse doctor --repair`."
        done = "Most runs are affected, so this machine's clock is probably behind; nothing was changed."
    else:
        code, hint = "times_in_future", "Check that this machine's clock is set by NTP."
        done = "The clock was ahead when they were stored; they were moved back, preserving their order."
    many = "1 stored time lies" if found.count == 1 else f"{found.count:,} stored times lie"
    detail = f"{many} after {now:%Y-%m-%d %H:%M} UTC, up to {found.last():%Y-%m-%d %H:%M}."
    warn(connection, run_id, RunWarning(code, found.count, f"{detail} {done}", hint, makes_partial=True))


def unknown_age(now: datetime, within: timedelta) -> datetime:
    """Return the time to use for unknown times: so long ago that data of that age is out of date."""
    return now - within - timedelta(days=1)
