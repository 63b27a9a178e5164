"""File operations: durable writes, protection against links, and deletion of leftover files."""

import os
from pathlib import Path

from connectors.warehouse.storage.errors import first_line

# What DuckDB 1.5 and 2.0 replay into a file that is opened. Not `.tmp`: in that folder readers spill their queries.
_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")


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


def open_without_symlinks(path: str, flags: int) -> int:
    """Open a file, as `opener` of `open`, but follow no link: another user could point it at a different file."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def discard(file: Path) -> None:
    """Remove a DuckDB file, if there is one, and the logs beside it. Raises OSError."""
    for left_over in (file, *logs(file)):
        left_over.unlink(missing_ok=True)


def log_problem(snapshot: Path) -> str | None:
    """Return why a snapshot is not read: a log of another program, which DuckDB would replay, lies beside it."""
    if not (left := logs(snapshot)):
        return None
    return (
        f"{snapshot} is not used: another program opened it for writing and left {left[0].name}."
        " Fix: `gramhouse publish`; open the snapshot read-only."
    )


def unreadable(snapshot: Path, why: str) -> str:
    """Return the line for a snapshot that DuckDB does not open; `why` is its message."""
    if snapshot.is_dir():
        fix = "set GRAMHOUSE_SNAPSHOT to a file, not to a folder"
    elif not os.access(snapshot, os.R_OK):
        fix = f"make it readable (chmod a+r {snapshot})"
    else:
        fix = "`gramhouse publish` writes it again; close any program that has it open for writing"
    return f"{snapshot} cannot be read: {first_line(why)}. Fix: {fix}."


def logs(file: Path) -> list[Path]:
    """Return the logs that lie beside a DuckDB file, whether or not that file exists."""
    return [path for suffix in _LOGS if os.path.lexists(path := file.with_name(file.name + suffix))]
