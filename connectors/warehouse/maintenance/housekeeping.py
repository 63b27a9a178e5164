"""Deletes data after its retention time: runs in the ledger, records in quarantine."""

import json
from collections.abc import Collection
from datetime import date, datetime

from sqlalchemy import Connection, delete

from connectors.warehouse.merge import run_counts
from connectors.warehouse.storage.statements import statements
from models.tables import core_quarantine

_SQL = statements(__name__)

# The views show each partition's last outcome, however old it is, so it is kept.
_LAST_WORDS = """
SELECT arg_max(o.rowid, r.seq) FROM core.run_outcomes AS o JOIN core.runs AS r USING (run_id)
GROUP BY o.resource, o.account_id, o.surface
"""

_FORGET_OUTCOMES = f"""
DELETE FROM core.run_outcomes
WHERE run_id IN (SELECT unnest(from_json(?, '["VARCHAR"]')))
  AND rowid NOT IN ({_LAST_WORDS})
"""  # noqa: S608 - our own words

_FORGET_WARNINGS = "DELETE FROM core.run_warnings WHERE run_id NOT IN (SELECT run_id FROM core.runs)"

_FORGET_RUNS = """
DELETE FROM core.runs
WHERE run_id IN (SELECT unnest(from_json(?, '["VARCHAR"]')))
  AND run_id NOT IN (SELECT run_id FROM core.run_outcomes)
RETURNING run_id
"""


# What leaves less than this part, and days for less than half of the time to keep, is no tidying up: a clock is ahead.
_LEAST_KEPT = 0.5


def newest(connection: Connection, *, now: datetime) -> datetime:
    """Return the time that ages are counted from: when the run before the last one ended, and `now` at the latest.

    A clock that jumped ahead since then makes nothing older than it is.
    """
    found = connection.exec_driver_sql(
        "SELECT arg_max(ended_at, seq) FROM core.runs WHERE seq < (SELECT max(seq) FROM core.runs)"
    ).scalar()
    return min(now, found) if isinstance(found, datetime) else now


def is_nearly_all(days: Collection[date], *, before: date, keep: int) -> bool:
    """Say whether too much would go with what is before a date: most of it, and with it most of the days to `keep`.

    `days` are those of all that there is, one for each run.
    """
    kept = [day for day in days if day >= before]
    return len(kept) < _LEAST_KEPT * len(days) and 2 * len(set(kept)) < keep


def run_days(connection: Connection) -> list[date]:
    """Return for each run the day (UTC) on which it began."""
    return list(connection.exec_driver_sql("SELECT (started_at AT TIME ZONE 'UTC')::DATE FROM core.runs").scalars())


def forget_runs(connection: Connection, *, before: datetime) -> int:
    """Delete the runs that began before an instant, with their outcomes and warnings, in the open transaction.

    Returns how many runs are gone.

    None that still matters goes: a run under way, the last that ended of each kind and selection, those that may
    yet be resumed. A partition's last outcome stays, and the run in which it was met. What the deleted runs did stays
    counted, in one row for all of them.
    """
    old = connection.exec_driver_sql(_SQL["old"], (before,)).scalars().all()
    if not old:
        return 0
    ids = json.dumps(list(old))
    connection.exec_driver_sql(_FORGET_OUTCOMES, (ids,))
    gone = len(connection.exec_driver_sql(_FORGET_RUNS, (ids,)).all())
    connection.exec_driver_sql(_FORGET_WARNINGS)
    run_counts.forget(connection)
    return gone


# So many runs have a row for each partition, as the report shows them; older ones only where the outcome changed.
_RUNS_IN_FULL = 30

# A scan that read what is new is as good an outcome as one that read everything.
_SEEN = "concat_ws(' ', replace(o.outcome, 'recent', 'complete'), o.error_code, o.detail)"

# Each partition's last outcome stays, for it is read later, and so does the first of each month: when the oldest runs
# are forgotten, later ones still have an outcome that theirs is the same as.
_THIN_OUTCOMES = f"""
WITH old AS (
    SELECT
        o.rowid AS row_id, o.outcome,
        {_SEEN} AS seen, lag(seen) OVER (
            PARTITION BY o.resource, o.account_id, o.surface, date_trunc('month', o.ended_at) ORDER BY r.seq
        ) AS seen_before
    FROM core.run_outcomes AS o JOIN core.runs AS r USING (run_id)
    WHERE o.ended_at < ?::TIMESTAMPTZ AND r.seq <= (SELECT max(seq) - ? FROM core.runs)
)
DELETE FROM core.run_outcomes
WHERE rowid IN (SELECT row_id FROM old WHERE outcome IN ('complete', 'recent', 'skipped') AND seen = seen_before)
  AND rowid NOT IN ({_LAST_WORDS})
"""  # noqa: S608 - our own words


def thin_outcomes(connection: Connection, *, before: datetime, runs_in_full: int = _RUNS_IN_FULL) -> None:
    """Delete successful outcomes that are like the partition's one before, in the open transaction.

    Those that were known before an instant and are not of the last runs: a run has one for each partition. What went
    wrong stays as long as its run, and a partition's last outcome as long as there is none after it.
    """
    connection.exec_driver_sql(_THIN_OUTCOMES, (before, runs_in_full))


def forget_quarantined(connection: Connection, *, before: datetime) -> int:
    """Delete the records in quarantine that were last met before an instant, in the open transaction; return how many.

    A record that is still sent stays, however long ago it was first met.
    """
    statement = delete(core_quarantine).where(core_quarantine.c.last_seen_at < before)
    return len(connection.execute(statement.returning(core_quarantine.c.seen_at)).all())
