"""What a power cut must not take back."""

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
