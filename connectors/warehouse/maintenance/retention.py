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
    query = """
        SELECT min(ended_at)
        FROM (SELECT ended_at FROM core.runs WHERE seq < (SELECT max(seq) FROM core.runs) ORDER BY seq DESC LIMIT ?)
    """
    [(found,)] = db.execute(query, [_AGREEING]).fetchall()
    return min(now, found) if isinstance(found, datetime) else now


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


def delete_quarantined(db: DuckDBPyConnection, *, before: datetime) -> None:
    """Delete quarantined records that were last received before a time, in the open transaction.

    A record that the API still sends is kept, no matter when it was first received.
    """
    db.execute("DELETE FROM core.quarantine WHERE last_seen_at < ?", [before])
