"""The status file next to a snapshot: the last writing process, and its result.

A snapshot is replaced only when a run ends. This file is also replaced when one begins, so readers of the snapshot see
a running or interrupted run. It is written under the warehouse's lock and contains no secrets.
"""

import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from connectors.warehouse.storage.durable import replace_file
from connectors.warehouse.storage.errors import StatusUnreadable
from connectors.warehouse.storage.holder import look
from models.runs import NOT_REPLACED, RunState

_LIMIT = 64 * 1024

_Instant = Annotated[datetime, msgspec.Meta(tz=True)]


@dataclass(frozen=True, slots=True)
class Status:
    """One execution of a command that writes; `kind` is its name.

    `run_id`, `selection` and the counts are set for sync and backfill only. Times are in UTC. `state` is running until
    the process writes its result.
    """

    kind: str
    state: RunState
    pid: int
    started_at: _Instant
    run_id: str | None = None
    selection: str | None = None
    ended_at: _Instant | None = None
    accounts: int | None = None
    pages: int | None = None
    items: int | None = None
    error_code: str | None = None
    detail: str | None = None

    @property
    def failed_to_start(self) -> bool:
        """Whether it is a sync or backfill that failed before its run began."""
        return self.kind in {"sync", "backfill"} and self.run_id is None and self.state is RunState.FAILED

    @property
    def has_published(self) -> bool:
        """Whether it has published a snapshot."""
        return self.state in {RunState.COMPLETE, RunState.PARTIAL} and self.error_code != NOT_REPLACED


def status_path(snapshot: Path) -> Path:
    """Return the path of the status file next to a snapshot."""
    return snapshot.with_name(snapshot.name + ".status.json")


def write_status(snapshot: Path, status: Status) -> None:
    """Replace the status file atomically and durably. Raises OSError."""
    replace_file(status_path(snapshot), msgspec.json.encode(status))


def read_status(snapshot: Path) -> Status | None:
    """Read the status file; return None if it does not exist. Raises StatusUnreadable."""
    path = status_path(snapshot)
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            # A longer file is not gramhouse's; truncated, it cannot be parsed.
            return msgspec.json.decode(file.read(_LIMIT), type=Status)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StatusUnreadable(path, error.strerror or str(error)) from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise StatusUnreadable(path, "its content is invalid") from error


def settled(status: Status, warehouse: Path) -> Status:
    """Return the status, with the state interrupted if it is running but its process no longer holds the lock.

    On a machine without the lock file, such as an analyst's with a copy of the snapshot, the status is unchanged.
    """
    if status.state is not RunState.RUNNING or (lock := look(warehouse)) is None:
        return status
    if lock.is_held and (lock.holder is None or lock.holder.pid == status.pid):
        return status
    detail = f"Process {status.pid} ended before the run: it was killed, or the machine failed."
    return replace(status, state=RunState.INTERRUPTED, detail=detail)
