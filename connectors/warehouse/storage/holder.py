"""The lock on the warehouse: a lock file next to it that names its holder. It is released when the process ends."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from connectors.warehouse.storage.files import explain, real
from models.files import WarehouseBusy, first_line

_TRIES = 5
_PAUSE = 0.05

UNKNOWN = "another gramhouse"
"""The holder, while it has not written yet which it is."""


def lock_path(warehouse: Path) -> Path:
    """Return the lock file's path, which is the same for a warehouse and a symbolic link to it."""
    path = real(warehouse)
    return path.with_name(path.name + ".lock")


def _read(file: IO[str]) -> str:
    file.seek(0)
    return first_line(file.readline() or UNKNOWN)


def _try_lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def hold(warehouse: Path, activity: str, *, since: str, pause: Callable[[float], None]) -> Iterator[None]:
    """Hold the lock of a warehouse, or of another path, for the duration of the block. Creates its folder if necessary.

    The operating system releases the lock (flock) of a killed process. `holder` takes the lock for a moment, so a first
    failure is retried a few times.

    Raises WarehouseBusy, which names the holder, and WarehouseUnusable when the folder cannot be written.
    """
    path = lock_path(warehouse)
    with ExitStack() as opened:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # No symbolic link, which another user could point elsewhere: the file is truncated.
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            file = opened.enter_context(os.fdopen(handle, "r+", encoding="utf-8"))
            tries = _TRIES
            while not (is_ours := _try_lock(file, fcntl.LOCK_EX)) and (tries := tries - 1):
                pause(_PAUSE)
            if is_ours:
                file.truncate(0)
                file.write(f"{activity} (process {os.getpid()}, since {since})")
                file.flush()
        except OSError as error:
            raise explain(path, error) from error
        if not is_ours:
            fix = "Fix: wait until it has finished, or read the snapshot meanwhile."
            raise WarehouseBusy(f"{warehouse} is held by {_read(file)}. {fix}")
        try:
            yield
        finally:
            # Another program that holds the lock next, such as a backup, writes no name.
            with suppress(OSError):
                file.truncate(0)


def holder(warehouse: Path) -> str | None:
    """Return the process that holds the warehouse's lock, such as `gramhouse sync (process 7, since 2026-03-01T...)`.

    None if none does, or if the file system has no locks.
    """
    try:
        with lock_path(warehouse).open(encoding="utf-8") as file:
            return None if _try_lock(file, fcntl.LOCK_SH) else _read(file)
    except OSError:
        return None
