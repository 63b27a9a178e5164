"""The lock on the warehouse: a lock file next to it that names its holder. It is released when the process ends."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from connectors.warehouse.storage.durable import open_without_symlinks
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseUnusable, hint_for
from connectors.warehouse.storage.paths import real

_TRIES = 5
_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes: its activity, and since when (ISO 8601, UTC). `pid` is 0 if its text is unreadable."""

    pid: int = 0
    activity: str = "another gramhouse"
    since: str = ""

    def __str__(self) -> str:
        return f"{self.activity} (process {self.pid}, since {self.since})" if self.pid else self.activity


def lock_path(warehouse: Path) -> Path:
    """Return the lock file's path, which is the same for a warehouse and a symbolic link to it."""
    path = real(warehouse)
    return path.with_name(path.name + ".lock")


def _read(file: IO[str]) -> Holder:
    file.seek(0)
    try:
        return Holder(**json.load(file))
    except (ValueError, TypeError):
        return Holder()


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
            # The file is truncated, so a symbolic link to another file must not be followed.
            file = opened.enter_context(open(path, "a+", encoding="utf-8", opener=open_without_symlinks))
            tries = _TRIES
            while not (is_ours := _try_lock(file, fcntl.LOCK_EX)) and (tries := tries - 1):
                pause(_PAUSE)
            if is_ours:
                file.truncate(0)
                json.dump(asdict(Holder(os.getpid(), activity, since)), file)
                file.flush()
        except OSError as error:
            hint = hint_for(error, "Fix: set GRAMHOUSE_WAREHOUSE to a file in a writable folder.")
            raise WarehouseUnusable(f"cannot write in {path.parent}: {error.strerror}. {hint}") from error
        if not is_ours:
            fix = "Fix: wait until it has finished, or read the snapshot meanwhile."
            raise WarehouseBusy(f"{warehouse} is held by {_read(file)}. {fix}")
        yield


def holder(warehouse: Path) -> Holder | None:
    """Return the process that holds the warehouse's lock; None if none does, or if the file system has no locks."""
    try:
        with lock_path(warehouse).open(encoding="utf-8") as file:
            return None if _try_lock(file, fcntl.LOCK_SH) else _read(file)
    except OSError:
        return None
