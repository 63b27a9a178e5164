"""Records commands that fail before they begin, so that `gramhouse status` shows them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from connectors.warehouse.storage.errors import WarehouseBusy, first_line
from connectors.warehouse.storage.holder import look
from connectors.warehouse.storage.paths import real
from flows.clock import SystemClock
from flows.config.settings import find_warehouse
from flows.reporting.progress import Progress, notices
from models.selection import NothingChosen, SelectionError

_LONGEST = 1000

STOPPED = "Stopped by a signal."

RUN_KINDS = ("sync", "backfill")


@contextmanager
def record_failed_start(
    activity: str, chosen: Mapping[str, object], *, progress: Progress | None = None
) -> Iterator[None]:
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
            _add_row(find_warehouse(chosen), activity, short(error))
        raise


def _add_row(warehouse: Path, activity: str, detail: str) -> None:
    # Imported here, because only failures need it.
    from connectors.state.database import StateError, open_state, state_path  # noqa: PLC0415
    from connectors.state.runs import add_failed_start  # noqa: PLC0415

    kind, lock, path = command(activity), look(warehouse), state_path(real(warehouse))
    # What is in progress is more important than a publication that failed meanwhile.
    if not path.parent.is_dir() or (kind not in RUN_KINDS and lock is not None and lock.is_held):
        return
    try:
        with open_state(path) as state:
            state.write(add_failed_start, kind, pid=os.getpid(), now=SystemClock().now(), detail=detail)
    except StateError as error:
        notices.warning(f"{error} `gramhouse status` cannot show this failure.")


def command(activity: str) -> str:
    """Return the command of an activity such as `gramhouse doctor --repair`."""
    return activity.removeprefix("gramhouse ").split()[0]


def short(error: Exception) -> str:
    """Return an error's first line, truncated for the state."""
    return first_line(error)[:_LONGEST]
