"""Records commands that fail before they begin, so that `gramhouse status` shows them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from connectors.warehouse.storage.files import real
from flows.clock import SystemClock
from flows.config.settings import find_warehouse
from flows.reporting.progress import notices
from models.files import WarehouseBusy, WarehouseUnusable, first_line
from models.selection import NothingChosen, SelectionError

_LONGEST = 1000

STOPPED = "Stopped by a signal."


@contextmanager
def record_failed_start(command: str, warehouse: object = None) -> Iterator[None]:
    """Record a failure in the block before its run begins, so that `gramhouse status` shows it.

    `warehouse` is the file that was chosen, if one was. A run that has begun records its end itself. A selection
    without accounts, and another process that writes, are not failures.
    """
    since = SystemClock().now()
    try:
        yield
    except (SelectionError, NothingChosen, WarehouseBusy):
        raise
    except Exception as error:
        # Imported here, because only failures need it.
        from connectors.state.database import open_state, state_path  # noqa: PLC0415
        from connectors.state.runs import add_failed_start  # noqa: PLC0415

        path, now = state_path(real(find_warehouse(warehouse))), SystemClock().now()
        if path.parent.is_dir():
            why = short(error)
            try:
                with open_state(path) as state:
                    state.write(add_failed_start, command, pid=os.getpid(), since=since, now=now, detail=why)
            except WarehouseUnusable as problem:
                notices.warning(f"{problem} `gramhouse status` cannot show this failure.")
        raise


def short(error: Exception) -> str:
    """Return an error's first line, truncated for the state."""
    return first_line(error)[:_LONGEST]
