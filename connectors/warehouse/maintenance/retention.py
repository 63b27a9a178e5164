"""Deletes data after its retention time: runs and their outcomes, and records in quarantine."""

from datetime import datetime

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.sql import statements

_SQL = statements(__name__)

# So many runs in a row must agree that the clock is right. One that is ahead by years would make everything old.
_AGREEING = 10

# The last runs, which the report shows, keep all outcomes; older runs keep only outcomes that changed.
_RUNS_IN_FULL = 30


def find_agreed_time(db: DuckDBPyConnection, *, now: datetime) -> datetime:
    """Return the time from which ages are computed: the first end of the last runs before this one, at the latest now.

    A person has that many runs to set a clock that is ahead, before it deletes anything.
    """
    [(found,)] = db.execute(_SQL["agreed"], [_AGREEING]).fetchall()
    return min(now, found) if isinstance(found, datetime) else now


def delete_old(
    db: DuckDBPyConnection, *, before: datetime, repeated_before: datetime, runs_in_full: int = _RUNS_IN_FULL
) -> list[str]:
    """Delete runs that began `before` a time, with outcomes and warnings, and quarantined records, in the transaction.

    Returns the ids of the deleted runs, which the caller must delete from the state too.

    Kept at any age: the running run, the last ended run of each kind and selection, runs that may still be resumed, and
    the last outcome of each partition together with its run. The counts of deleted runs are kept, combined in one row.
    A quarantined record that the API still sends is kept, no matter when it was first received.

    Successful outcomes from `repeated_before` a time that equal the partition's previous one are deleted too, but for
    those of the last `runs_in_full` runs, and the last one of each partition.
    """
    db.execute(_SQL["repeated"], [repeated_before, runs_in_full])
    db.execute(_SQL["quarantined"], [before])
    db.execute(_SQL["old"], [before])
    db.execute(_SQL["outcomes"])
    gone = [run_id for (run_id,) in db.execute(_SQL["runs"]).fetchall()]
    if gone:
        db.execute(_SQL["warnings"])
        db.execute(_SQL["unlisted"], [gone])
        db.execute(_SQL["counts"])
    return gone
