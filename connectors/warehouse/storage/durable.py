"""File operations: durable writes, and deletion of leftover files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Logs that DuckDB 1.5 and 2.0 replay when they open a file. Not `.tmp`, the folder to which queries of readers spill.
_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")


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
    """Replace a file atomically and durably: it is written next to it, then renamed. Raises OSError."""
    draft = path.with_name(f".{path.name}.next")
    draft.unlink(missing_ok=True)
    # Exclusive, so that a symbolic link is not followed.
    with draft.open("xb") as file:
        file.write(data)
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
