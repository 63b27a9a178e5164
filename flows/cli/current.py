"""What commands read: the current snapshot, which they download from a bucket, and the run that is not in it yet."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.holder import UNKNOWN, holder
from connectors.warehouse.storage.paths import real
from flows.config.settings import Settings, load
from models.errors import WarehouseUnusable
from models.runs import RunState

Record = dict[str, Any]

_SHOWN = (
    *("run_id", "kind", "selection", "state", "pid", "started_at", "ended_at"),
    *("accounts", "pages", "items", "error_code", "detail", "published_at"),
)

_RUNS = "SELECT * FROM runs WHERE kind <> 'totals' ORDER BY seq DESC LIMIT ?"
_KNOWN = "SELECT count(*) FROM runs WHERE run_id = ?"


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
    """The last command, as a row of the state's runs, and the process that holds the warehouse's lock now.

    `problem` is why the state cannot be read, `is_erasing` whether a `gramhouse forget` was interrupted.
    """

    last: Record | None = None
    writing: str | None = None
    problem: str | None = None
    is_erasing: bool = False

    def runs(self, snapshot: Snapshot, limit: int) -> list[Record]:
        """Return the last runs, newest first: the current one, if the snapshot does not have it yet, and its own."""
        answer = snapshot.query(_RUNS, [limit])
        rows, run = answer.records(), self.last or {}
        run_id = run.get("run_id")
        if run_id is not None and snapshot.query(_KNOWN, [run_id]).rows == [(0,)]:
            rows.insert(0, {name: run.get(name) for name in answer.columns})
        elif rows and rows[0]["run_id"] == run_id and run["state"] == RunState.INTERRUPTED:
            # It ended after the snapshot was written, for example because the upload to the bucket failed.
            rows[0] |= {name: run[name] for name in ("state", "error_code", "detail")}
        return rows[:limit]

    def other(self) -> Record | None:
        """Return the last command if it is one without a run, such as publish, that is running or failed."""
        last = self.last
        return last if last and last["run_id"] is None and last["state"] != RunState.COMPLETE else None


def current(settings: Settings) -> Current:
    """Read the state; a command whose process is gone is shown as interrupted."""
    # Imported here, because SQLAlchemy is not needed on a machine without the state.
    from connectors.state.database import open_state_read_only, state_path

    path, writing = state_path(real(settings.warehouse)), holder(settings.warehouse)
    # Without the warehouse, too, the snapshot is a copy: the state is where it was published.
    has_warehouse = settings.warehouse.exists()
    lost = f"There is no state beside {settings.warehouse}. Fix: `gramhouse doctor` says what is missing."
    if not path.exists():
        return Current(None, writing, lost if has_warehouse else None)
    from connectors.state.identity import read_identity, read_operations
    from connectors.state.runs import last_command
    from models.erasure import OPERATION
    from models.identity import NEW

    try:
        with open_state_read_only(path) as state:
            if state is None:
                return Current(None, writing)
            last, is_erasing = state.read(last_command), OPERATION in state.read(read_operations)
            # A command that was refused because there was none has left an empty one.
            is_empty = state.read(read_identity).token == NEW
    except WarehouseUnusable as error:
        return Current(None, writing, str(error))
    if last is not None:
        last = {name: last[name] for name in _SHOWN}
        if (
            last["state"] == RunState.RUNNING
            and writing != UNKNOWN
            and f"(process {last['pid']}," not in (writing or "")
        ):
            detail = f"Process {last['pid']} ended before the run: it was killed, or the machine failed."
            last |= {"state": RunState.INTERRUPTED.value, "detail": detail}
    return Current(last, writing, lost if is_empty and has_warehouse and writing is None else None, is_erasing)
