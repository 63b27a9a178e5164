"""Files: what a power cut must not take back, what no link may stand in for, what is no use any more."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Make a file, or a folder's list of names, durable. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(handle: int, data: bytes) -> None:
    """Write all of it. Raises OSError; then some of it may be written."""
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def no_link(path: str, flags: int) -> int:
    """Open a file, as `opener` of `open`, but none behind a link: whoever put it there may mean another's file."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def discard(file: Path) -> None:
    """Remove a DuckDB file, if there is one, and the log beside it. Raises OSError."""
    for left_over in (file, file.with_name(file.name + ".wal")):
        left_over.unlink(missing_ok=True)
