"""The status file next to a snapshot: the last writing process, and its result.

A snapshot is replaced only when a run ends. This file is also replaced when one begins, so readers of the snapshot see
a running or interrupted run. It is written under the warehouse's lock and contains no secrets.
"""

import json
import os
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from connectors.warehouse.storage.durable import replace_file
from connectors.warehouse.storage.errors import StatusUnreadable
from connectors.warehouse.storage.holder import look
from models.runs import RunState

_LIMIT = 64 * 1024


@dataclass(frozen=True, slots=True)
class Status:
    """One execution of a command that writes; `kind` is its name.

    `run_id`, `selection` and the counts are set for sync and backfill only. Times are in UTC. `state` is running until
    the process writes its result.
    """

    kind: str
    state: RunState
    pid: int
    started_at: datetime
    run_id: str | None = None
    selection: str | None = None
    ended_at: datetime | None = None
    accounts: int | None = None
    pages: int | None = None
    items: int | None = None
    error_code: str | None = None
    detail: str | None = None

    @property
    def failed_to_start(self) -> bool:
        """Whether it is a sync or backfill that failed before its run began."""
        return self.kind in {"sync", "backfill"} and self.run_id is None and self.state is RunState.FAILED


def status_path(snapshot: Path) -> Path:
    """Return the path of the status file next to a snapshot."""
    return snapshot.with_name(snapshot.name + ".status.json")


def write_status(snapshot: Path, status: Status) -> None:
    """Replace the status file atomically and durably. Raises OSError."""
    replace_file(status_path(snapshot), json.dumps(asdict(status), default=str).encode())


def _moment(value: object) -> datetime:
    moment = datetime.fromisoformat(str(value))
    if moment.tzinfo is None:
        message = "a time has no time zone"
        raise ValueError(message)
    return moment


def _parse(text: bytes) -> Status:
    found: dict[str, Any] = json.loads(text)
    status = Status(**found)
    texts = (status.run_id or "", status.selection or "", status.error_code or "", status.detail or "", status.kind)
    numbers = (status.accounts or 0, status.pages or 0, status.items or 0, status.pid)
    if not all(isinstance(each, str) for each in texts) or not all(isinstance(each, int) for each in numbers):
        message = "a value has the wrong type"
        raise TypeError(message)
    return replace(
        status,
        state=RunState(status.state),
        started_at=_moment(status.started_at),
        ended_at=None if status.ended_at is None else _moment(status.ended_at),
    )


def read_status(snapshot: Path) -> Status | None:
    """Read the status file; return None if it does not exist. Raises StatusUnreadable."""
    path = status_path(snapshot)
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            # A longer file is not gramhouse's; truncated, it cannot be parsed.
            return _parse(file.read(_LIMIT))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StatusUnreadable(path, error.strerror or str(error)) from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
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
