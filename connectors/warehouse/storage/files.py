"""Files: which paths can be used, durable writes, what DuckDB leaves next to its files, and what its errors mean."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from models.files import WarehouseBusy, WarehouseError, WarehouseUnusable, first_line

# `Path` turns s3:// into s3:/. DuckDB interprets other words before a colon as extensions, and downloads them.
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9_+.-]+:|:")

# DuckDB names a database after its file, without the suffix, and these names have another meaning.
_TAKEN = {
    *("core", "information_schema", "pg_catalog", "next_snapshot", "published_snapshot", "old_warehouse"),
    "new_warehouse",
}

# Logs that DuckDB 1.5 and 2.0 replay when they open a file. Not `.tmp`, the folder to which queries of readers spill.
_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")

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


def local(path: Path) -> Path:
    """Return a local path with `~` expanded. Raises ValueError if the path is not local, or no UTF-8."""
    if not path.name or "\0" in str(path):
        raise ValueError("it is not a file name")
    if _ELSEWHERE.match(str(path)):
        raise ValueError("it is not a local path; choose a file or folder of this machine")
    str(path).encode()
    if (found := os.path.expanduser(path)).startswith("~"):  # noqa: PTH111 - the other one raises RuntimeError
        raise ValueError(f"the home directory {path.parts[0]} does not exist; write the whole path")
    return Path(found)


def database(path: Path) -> Path:
    """Return the path of a DuckDB file as `local` does. Raises ValueError also if DuckDB would misinterpret it."""
    found = local(path)
    if "?" in str(found.absolute()):
        raise ValueError("paths with a question mark are not supported by DuckDB; choose another path")
    name = found.name.split(".")[0]
    if name.lower() in _TAKEN:
        raise ValueError(f"the name {name} is reserved in DuckDB; choose another file name")
    return found


def real(path: Path) -> Path:
    """Return the path of the file itself, if `path` is a symbolic link, also of one that does not exist yet."""
    # `Path.resolve` raises RuntimeError for a link to itself before Python 3.13.
    return Path(os.path.realpath(path))


@contextmanager
def private_files() -> Iterator[None]:
    """Let the files that this process creates in the block be readable by their owner only, as those of DuckDB."""
    mask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(mask)


def sync(path: Path) -> None:
    """Make a file, or the directory entries of a folder, durable. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file atomically and durably, with its mode: it is written next to it, then renamed. Raises OSError."""
    draft = path.with_name(f".{path.name}.next")
    draft.unlink(missing_ok=True)
    # Exclusive, so that a symbolic link is not followed.
    with draft.open("xb") as file:
        file.write(data)
    with suppress(FileNotFoundError):
        draft.chmod(path.stat().st_mode)
    sync(draft)
    draft.replace(path)
    sync(path.parent)


def is_duckdb(file: Path) -> bool:
    """Return whether a file has the magic bytes of a DuckDB file. Raises OSError."""
    with file.open("rb") as opened:
        return opened.read(12)[8:] == b"DUCK"


def discard(file: Path) -> None:
    """Remove a DuckDB file, if it exists, and the logs next to it. Raises OSError."""
    for left_over in (file, *logs(file)):
        left_over.unlink(missing_ok=True)


def logs(file: Path) -> list[Path]:
    """Return the logs next to a DuckDB file, whether or not that file exists."""
    return [path for suffix in _LOGS if os.path.lexists(path := file.with_name(file.name + suffix))]


def explain(path: Path, error: Exception) -> WarehouseError:
    """Convert an error of DuckDB or of the system about a file into one whose message is a line with the fix."""
    sign = next(sign for sign in _FIXES if sign in str(error))
    kind = WarehouseBusy if sign == "Could not set lock" else WarehouseUnusable
    # Without the number of a system error.
    what = getattr(error, "strerror", None) or first_line(error)
    return kind(f"{path} cannot be used: {what}. Fix: {_FIXES[sign]}.")
