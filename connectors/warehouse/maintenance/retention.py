"""Deletes data after its retention time: runs and their outcomes, and records in quarantine."""

from collections.abc import Collection
from datetime import date, datetime

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.statements import statements

_SQL = statements(__name__)

# If less than this share of the runs would remain, and they cover less than half of the retention time, then the clock
# is probably ahead, and nothing is deleted.
_LEAST_KEPT = 0.5

# The last runs, which the report shows, keep all outcomes; older runs keep only outcomes that changed.
_RUNS_IN_FULL = 30


def find_newest_end(db: DuckDBPyConnection, *, now: datetime) -> datetime:
    """Return the time from which ages are computed: the end of the run before the last one, at the latest `now`.

    Thus a clock that has jumped ahead since then does not make data look older than it is.
    """
    query = "SELECT arg_max(ended_at, seq) FROM core.runs WHERE seq < (SELECT max(seq) FROM core.runs)"
    [(found,)] = db.execute(query).fetchall()
    return min(now, found) if isinstance(found, datetime) else now


def is_nearly_all(days: Collection[date], *, before: date, keep: int) -> bool:
    """Return whether deleting runs before a date would delete too much: most runs, and most of the `keep` days.

    `days` has the day of each run.
    """
    kept = [day for day in days if day >= before]
    return len(kept) < _LEAST_KEPT * len(days) and 2 * len(set(kept)) < keep


def read_run_days(db: DuckDBPyConnection) -> list[date]:
    """Return the day (UTC) on which each run began."""
    rows = db.execute("SELECT (started_at AT TIME ZONE 'UTC')::DATE FROM core.runs").fetchall()
    return [day for (day,) in rows]


def delete_old_runs(db: DuckDBPyConnection, *, before: datetime) -> list[str]:
    """Delete runs that began before a time, with their outcomes and warnings, in the open transaction.

    Returns the ids of the deleted runs, which the caller must delete from the state too.

    Kept at any age: the running run, the last ended run of each kind and selection, runs that may still be resumed, and
    the last outcome of each partition together with its run. The counts of deleted runs are kept, combined in one row.
    """
    db.execute(_SQL["old"], [before])
    db.execute(_SQL["outcomes"])
    gone = [run_id for (run_id,) in db.execute(_SQL["runs"]).fetchall()]
    if gone:
        db.execute(_SQL["warnings"])
        db.execute(_SQL["unlisted"], [gone])
        db.execute(_SQL["counts"])
    return gone


def delete_repeated_outcomes(db: DuckDBPyConnection, *, before: datetime, runs_in_full: int = _RUNS_IN_FULL) -> None:
    """Delete successful outcomes that equal the partition's previous one, in the open transaction.

    Only outcomes from before a time are deleted, and none of the last `runs_in_full` runs. Unsuccessful outcomes are
    kept as long as their run, the last outcome of each partition until there is a later one.
    """
    db.execute(_SQL["repeated"], [before, runs_in_full])


def delete_quarantined(db: DuckDBPyConnection, *, before: datetime) -> int:
    """Delete quarantined records that were last received before a time, in the open transaction; return how many.

    A record that the API still sends is kept, no matter when it was first received.
    """
    [(deleted,)] = db.execute("DELETE FROM core.quarantine WHERE last_seen_at < ?", [before]).fetchall()
    return int(deleted)
