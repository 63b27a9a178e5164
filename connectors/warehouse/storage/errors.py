"""Errors of the files, with messages that explain the fix.

WarehouseError
├── WarehouseBusy      another process holds the file
├── WarehouseUnusable  the file cannot be opened, read or written
├── OtherService       the file was filled from another service address
├── SnapshotMissing    no snapshot has been published yet
└── SnapshotUnreadable the snapshot lacks what this version reads

QueryError is separate, because it concerns a user's query, not a file.
"""

_HINTS = {
    "No space left on device": "The disk is full. Fix: free space and retry; landed pages are kept.",
    "Disk quota exceeded": "The quota is used up. Fix: free space and retry; landed pages are kept.",
    "Out of Memory Error": "Fix: free memory and retry; landed pages are kept.",
    "not a valid DuckDB database": "Fix: set the path to another file, or restore a backup.",
}


def first_line(error: Exception | str) -> str:
    """Return the first line of an error's text without its final full stop, or the error's type if there is no text."""
    text = str(error).strip()
    return (text.splitlines()[0] if text else type(error).__name__).rstrip(".!")


def hint_for(error: Exception, otherwise: str) -> str:
    """Return the fix of an error of a file: by its text, such as that of a full disk, or another one."""
    return next((hint for sign, hint in _HINTS.items() if sign in str(error)), otherwise)


class WarehouseError(Exception):
    """A problem of the warehouse or the snapshot that a person can fix. The message is one line."""


class WarehouseBusy(WarehouseError):  # noqa: N818 - a state of the file, not a bug
    """Another process holds the warehouse."""


class WarehouseUnusable(WarehouseError):  # noqa: N818
    """The file cannot be opened, read or written."""


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
    """A user's query failed or was refused."""
