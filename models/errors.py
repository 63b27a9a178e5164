"""Errors of the files and of queries, each with a message of one line: what is wrong, and for a file the fix."""


class WarehouseError(Exception):
    """A problem of the warehouse, or of the files that belong to it, that a person can fix."""


class WarehouseUnusable(WarehouseError):  # noqa: N818 - a state of the file, not a bug
    """The warehouse, its state or its raw store cannot be opened, read or written, or does not belong here."""


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
