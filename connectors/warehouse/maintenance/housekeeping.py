"""Deletes data after its retention time: runs in the ledger, records in quarantine."""

import json
from collections.abc import Collection
from datetime import date, datetime

from connectors.warehouse.merge import run_counts
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.statements import statements

_SQL = statements(__name__)

# The last outcome of each partition, which is kept at any age because views show it.
_LAST_OUTCOMES = """
SELECT arg_max(o.rowid, r.seq) FROM core.run_outcomes AS o JOIN core.runs AS r USING (run_id)
GROUP BY o.resource, o.account_id, o.surface
"""

_DELETE_OUTCOMES = f"""
DELETE FROM core.run_outcomes
WHERE run_id IN (SELECT unnest(from_json(?, '["VARCHAR"]')))
  AND rowid NOT IN ({_LAST_OUTCOMES})
"""  # noqa: S608 - constants

_DELETE_WARNINGS = "DELETE FROM core.run_warnings WHERE run_id NOT IN (SELECT run_id FROM core.runs)"

_DELETE_RUNS = """
DELETE FROM core.runs
WHERE run_id IN (SELECT unnest(from_json(?, '["VARCHAR"]')))
  AND run_id NOT IN (SELECT run_id FROM core.run_outcomes)
RETURNING run_id
"""


# If less than this share of the runs would remain, and they cover less than half of the retention time, then the clock
# is probably ahead, and nothing is deleted.
_LEAST_KEPT = 0.5


def newest(connection: Connection, *, now: datetime) -> datetime:
    """Return the time from which ages are computed: the end of the run before the last one, at the latest `now`.

    Thus a clock that has jumped ahead since then does not make data look older than it is.
    """
    found = value(
        connection.db, "SELECT arg_max(ended_at, seq) FROM core.runs WHERE seq < (SELECT max(seq) FROM core.runs)"
    )
    return min(now, found) if isinstance(found, datetime) else now


def is_nearly_all(days: Collection[date], *, before: date, keep: int) -> bool:
    """Return whether deleting runs before a date would delete too much: most runs, and most of the `keep` days.

    `days` has the day of each run.
    """
    kept = [day for day in days if day >= before]
    return len(kept) < _LEAST_KEPT * len(days) and 2 * len(set(kept)) < keep


def run_days(connection: Connection) -> list[date]:
    """Return the day (UTC) on which each run began."""
    rows = connection.db.execute("SELECT (started_at AT TIME ZONE 'UTC')::DATE FROM core.runs").fetchall()
    return [day for (day,) in rows]


def delete_old_runs(connection: Connection, *, before: datetime) -> list[str]:
    """Delete runs that began before a time, with their outcomes and warnings, in the open transaction.

    Returns the ids of the deleted runs, which the caller must delete from the state too.

    Kept at any age: the running run, the last ended run of each kind and selection, runs that may still be resumed, and
    the last outcome of each partition together with its run. The counts of deleted runs are kept, combined in one row.
    """
    old = [run_id for (run_id,) in connection.db.execute(_SQL["old"], [before]).fetchall()]
    if not old:
        return []
    ids = json.dumps(old)
    connection.db.execute(_DELETE_OUTCOMES, [ids])
    gone = [run_id for (run_id,) in connection.db.execute(_DELETE_RUNS, [ids]).fetchall()]
    connection.db.execute(_DELETE_WARNINGS)
    run_counts.forget(connection)
    return gone


# The last runs, which the report shows, keep all outcomes; older runs keep only outcomes that changed.
_RUNS_IN_FULL = 30

# The outcomes recent and complete count as the same.
_SEEN = "concat_ws(' ', replace(o.outcome, 'recent', 'complete'), o.error_code, o.detail)"

# Each partition's last outcome is kept because it is read later. The first one of each month is kept too, so that when
# the oldest runs are deleted, the deleted outcomes of later runs can still be inferred from an equal one.
_DELETE_REPEATED_OUTCOMES = f"""
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
  AND rowid NOT IN ({_LAST_OUTCOMES})
"""  # noqa: S608 - constants


def delete_repeated_outcomes(connection: Connection, *, before: datetime, runs_in_full: int = _RUNS_IN_FULL) -> None:
    """Delete successful outcomes that equal the partition's previous one, in the open transaction.

    Only outcomes from before a time are deleted, and none of the last `runs_in_full` runs. Unsuccessful outcomes are
    kept as long as their run, the last outcome of each partition until there is a later one.
    """
    connection.db.execute(_DELETE_REPEATED_OUTCOMES, [before, runs_in_full])


def delete_quarantined(connection: Connection, *, before: datetime) -> int:
    """Delete quarantined records that were last received before a time, in the open transaction; return how many.

    A record that the API still sends is kept, no matter when it was first received.
    """
    ((deleted,),) = connection.db.execute("DELETE FROM core.quarantine WHERE last_seen_at < ?", [before]).fetchall()
    return int(deleted)
