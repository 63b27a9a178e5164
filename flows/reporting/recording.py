"""The status file next to the snapshot, updated by runs and other commands that write."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from connectors.warehouse.runs.status_file import Status, status_path, write_status
from connectors.warehouse.storage.errors import first_line
from connectors.warehouse.storage.holder import look
from flows.engine.run_context import Counters
from flows.reporting.words import Say
from models.runs import RunState

_LONGEST = 1000

STOPPED = "Stopped by a signal."


class Recording:
    """Writes the status file. If it cannot be written, this is reported in one line and the run continues."""

    def __init__(
        self, snapshot: Path, status: Status, now: Callable[[], datetime], say: Say, counters: Counters | None
    ) -> None:
        self._snapshot = snapshot
        self._counters = counters
        self._status = status
        self._now = now
        self._say = say
        self._write()

    def _write(self) -> None:
        try:
            write_status(self._snapshot, self._status)
        except OSError as error:
            path = status_path(self._snapshot)
            self._say(f"cannot write {path}: {error.strerror}. `gramhouse status` cannot show this run until it ends.")

    def end(self, state: RunState, *, error_code: str | None = None, detail: str | None = None) -> None:
        """Write the final state, and what the run has landed."""
        self._status = replace(self._status, state=state, ended_at=self._now(), error_code=error_code, detail=detail)
        if (done := self._counters) is not None:
            self._status = replace(self._status, accounts=done.accounts, pages=done.pages, items=done.items)
        self._write()


@contextmanager
def recorded(
    snapshot: Path,
    kind: str,
    *,
    now: Callable[[], datetime],
    say: Say,
    on_error: RunState = RunState.FAILED,
    run_id: str | None = None,
    selection: str | None = None,
    counters: Counters | None = None,
) -> Iterator[Recording]:
    """Record `kind` as running until `end` is called, as interrupted if it is cancelled, as `on_error` if it fails.

    Must be entered by the holder of the warehouse's lock.
    """
    running = Status(kind, RunState.RUNNING, os.getpid(), now(), run_id=run_id, selection=selection)
    recording = Recording(snapshot, running, now, say, counters)
    try:
        yield recording
    except (asyncio.CancelledError, KeyboardInterrupt):
        recording.end(RunState.INTERRUPTED, detail=STOPPED)
        raise
    except Exception as error:
        recording.end(on_error, detail=short(error))
        raise


def record_failure(
    snapshot: Path, warehouse: Path, activity: str, error: Exception, *, now: Callable[[], datetime], say: Say
) -> None:
    """Record that a command failed because the warehouse could not be opened, unless another process holds it."""
    lock = look(warehouse)
    if snapshot.parent.is_dir() and not (lock and lock.is_held):
        with suppress(type(error)), recorded(snapshot, command(activity), now=now, say=say):
            raise error


def command(activity: str) -> str:
    """Return the command of an activity such as `gramhouse quarantine --retry`."""
    return activity.removeprefix("gramhouse ").split()[0]


def short(error: Exception) -> str:
    """Return an error's first line, truncated for the status file."""
    return first_line(error)[:_LONGEST]
