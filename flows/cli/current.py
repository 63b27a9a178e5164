"""What commands read: the current snapshot, which they download from a bucket, and the state beside the warehouse."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.holder import UNKNOWN, holder
from connectors.warehouse.storage.paths import real
from flows.config.settings import Settings, load
from models.files import WarehouseUnusable
from models.runs import RunState

Record = dict[str, Any]

LEAST = 100
"""The fewest of the last runs that are read."""

_RUNS = "SELECT * FROM runs WHERE kind <> 'totals' ORDER BY seq DESC LIMIT ?"


def current_snapshot(settings: Settings) -> Path:
    """Return the snapshot's file on this machine, after downloading it if the bucket has a newer one.

    On the machine of the warehouse nothing is downloaded, because its file is the latest one. Raises BucketError,
    OSError, and WarehouseUnusable if another file is in the place of the download.
    """
    url, file = settings.snapshot_url(), settings.snapshot_file()
    if url is not None and not settings.warehouse.exists():
        import asyncio

        from connectors.buckets import SnapshotBucket
        from connectors.warehouse.publish.replaceable import check_snapshot

        check_snapshot(file)
        asyncio.run(SnapshotBucket(url).fetch(file))
    return file


def open_current(snapshot: str | None) -> AbstractContextManager[Snapshot]:
    """Open the current snapshot, for commands whose only setting is its place."""
    return open_snapshot(current_snapshot(load(snapshot=snapshot)))


@dataclass(frozen=True, slots=True)
class Current:
    """The state as it is now: the rows of its last runs, newest first, and the process that holds the warehouse's lock.

    `command` is the last command if it is none of them: a start of a run that failed, or another one such as publish.
    `problem` is why the state cannot be read, `is_erasing` whether a `gramhouse forget` was interrupted.
    """

    runs: Sequence[Record] = ()
    command: Record | None = None
    writing: str | None = None
    problem: str | None = None
    is_erasing: bool = False

    def of(self, snapshot: Snapshot) -> "Current | None":
        """Return this, or None if it and the snapshot have no run in common: that is another warehouse's.

        A run that the snapshot does not have, which may be an older copy, is not published.
        """
        known, published = ({run["run_id"] for run in runs} for runs in (self.runs, snapshot.query(_RUNS, [LEAST])))
        if known and published and not known & published:
            return None
        runs = [run if run["run_id"] in published else run | {"published_at": None} for run in self.runs]
        return replace(self, runs=runs)

    def list_runs(self, snapshot: Snapshot, limit: int) -> list[Record]:
        """Return the last runs, newest first: those of the snapshot, and what the state says of them since."""
        empty = {column["name"]: None for column in snapshot.columns("runs")}
        rows = {row["run_id"]: row for row in snapshot.query(_RUNS, [limit])}
        for run in self.runs[:limit]:
            # The snapshot alone has what the merge counted.
            since = {name: run[name] for name in empty if run.get(name) is not None}
            rows[run["run_id"]] = empty | rows.get(run["run_id"], {}) | since
        return sorted(rows.values(), key=lambda row: -row["seq"])[:limit]


def current(settings: Settings, limit: int = LEAST) -> Current:
    """Read the state and at least so many runs; a command whose process is gone is shown as interrupted."""
    # Imported here, because SQLAlchemy is not needed on a machine without the state.
    from connectors.state.database import open_state_read_only, state_path

    path, writing = state_path(real(settings.warehouse)), holder(settings.warehouse)
    # Without the warehouse, too, the snapshot is a copy: the state is where it was published.
    has_warehouse = settings.warehouse.exists()
    lost = f"There is no state beside {settings.warehouse}. Fix: `gramhouse doctor` says what is missing."
    if not path.exists():
        return Current(writing=writing, problem=lost if has_warehouse else None)
    from connectors.state.identity import read_identity, read_operations
    from connectors.state.runs import KILLED, last_command, read_runs
    from models.erasure import OPERATION
    from models.files import NEW

    try:
        with open_state_read_only(path) as state:
            if state is None:
                return Current(writing=writing)
            command, runs = state.read(last_command), state.read(read_runs, limit=max(limit, LEAST))
            is_erasing = OPERATION in state.read(read_operations)
            # A command that was refused because there was none has left an empty one.
            is_empty = state.read(read_identity).token == NEW
    except WarehouseUnusable as error:
        return Current(writing=writing, problem=str(error))
    for row in (*runs, *filter(None, [command])):
        is_writing = writing == UNKNOWN or f"(process {row['pid']}," in (writing or "")
        if row["state"] == RunState.RUNNING and not is_writing:
            row |= {"state": RunState.INTERRUPTED.value, "detail": KILLED}
    problem = lost if is_empty and has_warehouse and writing is None else None
    return Current(runs, command, writing, problem, is_erasing)
