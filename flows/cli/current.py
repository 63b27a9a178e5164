"""What commands read: the current snapshot, which they download from a bucket, and the run that is not in it yet."""

import asyncio
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from connectors.warehouse.runs.status_file import Status, read_status, settled, status_path
from connectors.warehouse.snapshot.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.errors import StatusUnreadable, WarehouseUnusable
from flows.config.settings import Settings, load
from models.runs import RunState

_RUNS = "SELECT * FROM runs WHERE kind <> 'totals' ORDER BY seq DESC LIMIT ?"
_KNOWN = "SELECT count(*) FROM runs WHERE run_id = ?"


def current_snapshot(settings: Settings) -> Path:
    """Return the snapshot's file on this machine, after downloading it if the bucket has a newer one.

    On the machine of the warehouse nothing is downloaded, because its file is the latest one. Raises BucketError,
    OSError, and WarehouseUnusable if another file is in the place of the download.
    """
    url, file = settings.snapshot_url(), settings.snapshot_file()
    if url is not None and not settings.warehouse.exists():
        from connectors.buckets.address import open_snapshot_bucket
        from connectors.warehouse.snapshot.ownership import download_refusal
        from connectors.warehouse.snapshot.publish import draft_of

        if (refused := download_refusal(file, draft_of(file))) is not None:
            raise WarehouseUnusable(str(refused))
        asyncio.run(open_snapshot_bucket(url).fetch(file))
    return file


def open_current(snapshot: str | None) -> AbstractContextManager[Snapshot]:
    """Open the current snapshot, for commands whose only setting is its place."""
    return open_snapshot(current_snapshot(load(snapshot=snapshot)))


@dataclass(frozen=True, slots=True)
class Current:
    """The status file of a snapshot; if it is missing or damaged, `problem` is a message for the user."""

    status: Status | None
    problem: str | None = None
    is_damaged: bool = False

    def runs(self, snapshot: Snapshot, limit: int) -> list[dict[str, Any]]:
        """Return the last runs, newest first: the current one, if the snapshot does not have it yet, and its own."""
        answer = snapshot.query(_RUNS, [limit])
        rows, run = answer.records(), self.as_run() or {}
        run_id = run.get("run_id")
        if run_id is not None and snapshot.query(_KNOWN, [run_id]).rows == [(0,)]:
            rows.insert(0, {name: run.get(name) for name in answer.columns})
        elif rows and rows[0]["run_id"] == run_id and run["state"] == RunState.INTERRUPTED:
            # It ended after the snapshot was written, for example because the upload to the bucket failed.
            rows[0] |= {name: run[name] for name in ("state", "error_code", "detail")}
        return rows[:limit]

    def as_run(self) -> dict[str, Any] | None:
        """Return the status as a row of `runs`, as far as it is known."""
        return None if self.status is None else asdict(self.status) | {"state": self.status.state.value}

    def other(self) -> Status | None:
        """Return the status of a command without a run, such as publish, that is running or failed."""
        status = self.status
        return status if status and status.run_id is None and status.state is not RunState.COMPLETE else None


def current(settings: Settings) -> Current:
    """Read the status file next to the snapshot; a run whose process is gone is shown as interrupted.

    A run that failed to start is in a file of its own, next to the warehouse, until another one starts.
    """
    try:
        status = read_status(settings.warehouse) or read_status(settings.snapshot_file())
    except StatusUnreadable as error:
        return Current(None, str(error), is_damaged=True)
    if status is None and settings.snapshot_url() and not settings.warehouse.exists():
        # The snapshot is a copy; the status file is on the machine that published it.
        return Current(None)
    if status is None:
        path = status_path(settings.snapshot_file())
        return Current(None, f"{path} is missing: interrupted runs cannot be shown. The next run creates it.")
    return Current(settled(status, settings.warehouse))
