"""Progress of merging the batch logs in the shared store: each entry is merged once."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from connectors.warehouse.storage.appending import append, as_json
from connectors.warehouse.storage.connection import Connection, value
from models.page_commit import PageCommit
from models.tables import ops_batch_logs


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of a batch's log in run `run_sequence`, numbered from 1; the `last` one closes the log.

    `part` has the items of its pages that have no body.
    """

    run_sequence: int
    batch: int
    number: int
    commits: tuple[PageCommit, ...]
    part: bytes | None = None
    last: bool = False


@dataclass(frozen=True, slots=True)
class MergedLog:
    """How many entries of a log are merged, and whether the last one is merged."""

    entries: int = 0
    is_closed: bool = False


def merged_logs(connection: Connection, run_sequence: int) -> Mapping[int, MergedLog]:
    """Return the logs of a run that are merged, partly or completely, by batch. Batch 0 is the run itself."""
    query = "SELECT batch, entries, is_closed FROM ops.batch_logs WHERE run_sequence = ?"
    rows = connection.db.execute(query, [run_sequence]).fetchall()
    return {batch: MergedLog(entries, is_closed) for batch, entries, is_closed in rows}


def last_run_sequence(connection: Connection) -> int:
    """Return the number of the last run in the shared store that this warehouse has recorded; 0 if there is none."""
    return int(value(connection.db, "SELECT max(run_sequence) FROM ops.batch_logs") or 0)


def open_run_sequences(connection: Connection) -> Sequence[int]:
    """Return the runs whose logs may not be completely merged, oldest first."""
    query = "SELECT run_sequence FROM ops.batch_logs WHERE batch = 0 AND NOT is_closed ORDER BY run_sequence"
    return [run_sequence for (run_sequence,) in connection.db.execute(query).fetchall()]


def enter_run(connection: Connection, run_sequence: int) -> None:
    """Record that a run began in the shared store."""
    _add(connection, run_sequence, {0: MergedLog()})


def close_run(connection: Connection, run_sequence: int) -> None:
    """Record that all logs of a run are merged, and delete the progress of its logs and of earlier runs."""
    connection.db.execute("DELETE FROM ops.batch_logs WHERE run_sequence <= ?", [run_sequence])
    _add(connection, run_sequence, {0: MergedLog(is_closed=True)})


def new_entries(connection: Connection, entries: Sequence[LogEntry]) -> list[LogEntry]:
    """Record entries as merged, in the transaction that merges them; return those that were not merged before.

    Raises AssertionError if an entry is missing before another one.
    """
    new = []
    for run_sequence in sorted({entry.run_sequence for entry in entries}):
        merged = dict(merged_logs(connection, run_sequence))
        touched = set()
        for entry in entries:
            if entry.run_sequence != run_sequence:
                continue
            before = merged.get(entry.batch, MergedLog())
            if before.is_closed or entry.number <= before.entries:
                continue
            if entry.number != before.entries + 1:
                message = f"entry {entry.number} of batch {entry.batch} came after entry {before.entries}"
                raise AssertionError(message)
            merged[entry.batch] = MergedLog(entry.number, entry.last)
            touched.add(entry.batch)
            new.append(entry)
        _save(connection, run_sequence, {batch: merged[batch] for batch in touched})
    return new


def _save(connection: Connection, run_sequence: int, logs: Mapping[int, MergedLog]) -> None:
    if not logs:
        return
    superseded = "DELETE FROM ops.batch_logs WHERE run_sequence = ? AND list_contains(?, batch)"
    connection.db.execute(superseded, [run_sequence, list(logs)])
    _add(connection, run_sequence, logs)


def _add(connection: Connection, run_sequence: int, logs: Mapping[int, MergedLog]) -> None:
    rows = [as_json({"run_sequence": run_sequence, "batch": batch, **asdict(log)}) for batch, log in logs.items()]
    append(connection, ops_batch_logs, rows)
