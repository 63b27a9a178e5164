"""The status file next to the snapshot, updated by commands that write, even if they fail to start."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from connectors.warehouse.runs.status_file import Status, status_path, write_status
from connectors.warehouse.storage.errors import WarehouseBusy, first_line
from connectors.warehouse.storage.holder import look
from flows.clock import SystemClock
from flows.config.settings import Settings, load_files
from flows.reporting.progress import Progress, notices
from models.runs import RunState
from models.selection import NothingChosen, SelectionError

_LONGEST = 1000

STOPPED = "Stopped by a signal."


class Recording:
    """Writes the status file. If it cannot be written, this is reported in one line and the run continues."""

    def __init__(self, snapshot: Path, status: Status, now: Callable[[], datetime], progress: Progress | None) -> None:
        self._snapshot = snapshot
        self._progress = progress
        self._status = status
        self._now = now
        self._write()

    def _write(self) -> None:
        try:
            self._snapshot.parent.mkdir(parents=True, exist_ok=True)
            write_status(self._snapshot, self._status)
        except OSError as error:
            path = status_path(self._snapshot)
            notices.warning(
                f"cannot write {path}: {error.strerror}. `gramhouse status` cannot show this run until it ends."
            )

    def end(self, state: RunState, *, error_code: str | None = None, detail: str | None = None) -> None:
        """Write the final state, and what the run has landed."""
        self._status = replace(self._status, state=state, ended_at=self._now(), error_code=error_code, detail=detail)
        if (done := self._progress) is not None:
            self._status = replace(self._status, accounts=done.accounts, pages=done.pages, items=done.items)
        self._write()


@contextmanager
def recorded(
    snapshot: Path,
    kind: str,
    *,
    now: Callable[[], datetime],
    on_error: RunState = RunState.FAILED,
    run_id: str | None = None,
    selection: str | None = None,
    progress: Progress | None = None,
) -> Iterator[Recording]:
    """Record `kind` as running until `end` is called, as interrupted if it is cancelled, as `on_error` if it fails.

    Must be entered by the holder of the warehouse's lock.
    """
    running = Status(kind, RunState.RUNNING, os.getpid(), now(), run_id=run_id, selection=selection)
    recording = Recording(snapshot, running, now, progress)
    try:
        yield recording
    except (asyncio.CancelledError, KeyboardInterrupt):
        recording.end(RunState.INTERRUPTED, detail=STOPPED)
        raise
    except Exception as error:
        recording.end(on_error, detail=short(error))
        raise


@contextmanager
def recorded_start(activity: str, chosen: Mapping[str, object], *, progress: Progress | None = None) -> Iterator[None]:
    """Record a failure before the run begins, so that `gramhouse status` shows it.

    `chosen` are settings of the command. A run that has begun, whose id is in `progress`, records its end itself. A
    selection without accounts, and another process that writes, are not failures.
    """
    try:
        yield
    except (SelectionError, NothingChosen, WarehouseBusy):
        raise
    except Exception as error:
        if progress is None or progress.run_id is None:
            _record_failed_start(load_files(chosen), activity, short(error))
        raise


def _record_failed_start(settings: Settings, activity: str, detail: str) -> None:
    now = SystemClock().now()
    status = Status(command(activity), RunState.FAILED, os.getpid(), now, ended_at=now, detail=detail)
    # A run is recorded beside the warehouse, too: the snapshot's path may be what is wrong, and a publish replaces the
    # file beside it. That file belongs to the process that holds the lock.
    files = [settings.warehouse] if status.failed_to_start else []
    lock = look(settings.warehouse)
    if lock is None or not lock.is_held:
        files.append(settings.snapshot_file())
    refused: list[str] = []
    for file in files:
        try:
            write_status(file, status)
        except OSError as error:
            refused.append(f"{status_path(file)}: {error.strerror}")
    if len(refused) == len(files) and any(file.parent.is_dir() for file in files):
        notices.warning(f"cannot write {' and '.join(refused)}. `gramhouse status` cannot show this failure.")


def command(activity: str) -> str:
    """Return the command of an activity such as `gramhouse doctor --repair`."""
    return activity.removeprefix("gramhouse ").split()[0]


def short(error: Exception) -> str:
    """Return an error's first line, truncated for the status file."""
    return first_line(error)[:_LONGEST]
