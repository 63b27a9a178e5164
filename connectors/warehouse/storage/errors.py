"""Errors of the files, each with a message of one line that names the file and the fix."""

from pathlib import Path

# Callers import those that the state raises, too, from here.
from models.files import WarehouseError as WarehouseError  # noqa: PLC0414
from models.files import WarehouseUnusable as WarehouseUnusable  # noqa: PLC0414

# What DuckDB or the system says, and what a person can do about it. The first that occurs in the text counts.
_FIXES = {
    "Could not set lock": "close that program, or read the snapshot instead",
    "Resource temporarily unavailable": "allow this user more processes (ulimit -u) and retry",
    "can't start new thread": "allow this user more processes (ulimit -u) and retry",
    "Permission denied": "make the file and its folder writable for this user",
    "not a valid DuckDB database": "set the path to another file, or restore a backup",
    "Corrupt": "restore a backup of the warehouse, the state and the raw store together",
    "": "check the path, free space or memory, then retry; landed pages are kept",
}


class WarehouseBusy(WarehouseError):  # noqa: N818 - a state of the file, not a bug
    """Another process holds the file."""


class SnapshotHides(WarehouseUnusable):
    """The snapshot is not replaced, because the next one would show what it hides."""


class OtherService(WarehouseError):  # noqa: N818
    """The warehouse was filled from another service address than the one configured."""


class SnapshotMissing(WarehouseError):  # noqa: N818
    """No snapshot has been published yet."""


class SnapshotUnreadable(WarehouseError):  # noqa: N818
    """A query of gramhouse fails in the snapshot."""

    def __init__(self, why: Exception | str) -> None:
        what = "This version of gramhouse cannot read the snapshot. DuckDB says"
        super().__init__(f"{what}: {first_line(why)}. Fix: publish a new one with `gramhouse publish`.")


class QueryError(Exception):
    """A user's query failed or was refused; no problem of a file."""


def first_line(error: Exception | str) -> str:
    """Return the first line of an error's text without its full stop, or the error's type if it has no text."""
    text = str(error).strip()
    return (text.splitlines()[0] if text else type(error).__name__).rstrip(".!")


def explain(path: Path, error: Exception) -> WarehouseError:
    """Convert an error of DuckDB or of the system about a file into one whose message is a line with the fix."""
    sign = next(sign for sign in _FIXES if sign in str(error))
    kind = WarehouseBusy if sign == "Could not set lock" else WarehouseUnusable
    # Without the number of a system error.
    what = getattr(error, "strerror", None) or first_line(error)
    return kind(f"{path} cannot be used: {what}. Fix: {_FIXES[sign]}.")
