"""Errors of the files that gramhouse keeps, which a person can fix: the message is one line, with the fix."""


class WarehouseError(Exception):
    """A problem of the warehouse, or of the files that belong to it, that a person can fix."""


class WarehouseUnusable(WarehouseError):  # noqa: N818 - a state of the file, not a bug
    """The warehouse, its state or its raw store cannot be opened, read or written, or does not belong here."""
