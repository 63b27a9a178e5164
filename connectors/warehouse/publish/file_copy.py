"""Copies a file in the kernel, which shares the blocks if the file system can; otherwise through memory."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

_BYTES_PER_CALL = 64 * 1024 * 1024


def copy_file(source: Path, target: Path) -> None:
    """Copy a file to a new one, without fsync. Raises OSError."""
    with source.open("rb") as opened, target.open("xb") as made:
        # Only Linux has this call, and not for all file systems. An error of the disk occurs again below.
        with suppress(OSError, AttributeError):
            while os.copy_file_range(opened.fileno(), made.fileno(), _BYTES_PER_CALL):
                pass
        # The call moves both places, so that this copies what is left.
        shutil.copyfileobj(opened, made)
