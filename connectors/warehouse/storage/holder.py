"""The lock on the warehouse: a lock file next to it that names its holder. It is released when the process ends."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


class Held(Exception):  # noqa: N818 - a state of the lock, not a bug
    """Another process, `who`, holds the lock."""

    def __init__(self, who: Holder) -> None:
        super().__init__(str(who))
        self.who = who


def lock(path: Path, activity: str, *, since: str, pause: Callable[[float], None]) -> IO[str]:
    """Return the lock file, which is held until it is closed. Creates its folder if necessary.

    The operating system releases the lock (flock) of a killed process. `holder` takes the lock for a moment, so a first
    failure is retried a few times. Raises Held, and OSError when the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The file is truncated, so a symbolic link to another file must not be followed.
    file = open(path, "a+", encoding="utf-8", opener=open_without_symlinks)  # noqa: SIM115 - the caller closes it
    try:
        for _ in range(_TRIES):
            if _try_lock(file, fcntl.LOCK_EX):
                break
            pause(_PAUSE)
        else:
            raise Held(_read(file))  # noqa: TRY301
        file.truncate(0)
        json.dump(asdict(Holder(os.getpid(), activity, since)), file)
        file.flush()
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def hold(warehouse: Path, activity: str, *, since: str, pause: Callable[[float], None]) -> Iterator[None]:
    """Hold the warehouse's lock for the duration of the block.

    Raises WarehouseBusy, which names the holder, and WarehouseUnusable when the folder cannot be written.
    """
    path = lock_path(warehouse)
    try:
        file = lock(path, activity, since=since, pause=pause)
    except Held as other:
        fix = "Fix: wait until it has finished, or read the snapshot meanwhile."
        raise WarehouseBusy(f"{warehouse} is held by {other}. {fix}") from None
    except OSError as error:
        hint = hint_for(error, "Fix: set GRAMHOUSE_WAREHOUSE to a file in a writable folder.")
        raise WarehouseUnusable(f"cannot write in {path.parent}: {error.strerror}. {hint}") from error
    with file:
        yield


def holder(warehouse: Path) -> Holder | None:
    """Return the process that holds the warehouse's lock; None if none does, or if the file system has no locks."""
    try:
        with lock_path(warehouse).open(encoding="utf-8") as file:
            return None if _try_lock(file, fcntl.LOCK_SH) else _read(file)
    except OSError:
        return None
