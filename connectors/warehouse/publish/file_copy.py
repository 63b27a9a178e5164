"""Copies a file in the kernel, which shares the blocks if the file system can; otherwise through memory."""

import errno
import os
import shutil
from pathlib import Path

_BYTES_PER_CALL = 64 * 1024 * 1024

# Error codes of a kernel or file system that does not support such copies; others are errors of the disk.
_CANNOT = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}


def copy_file(source: Path, target: Path) -> None:
    """Copy a file to a new one, without fsync. Raises OSError."""
    with source.open("rb") as opened, target.open("xb") as made:
        done = 0
        try:
            # Only Linux has this call.
            while hasattr(os, "copy_file_range") and (
                copied := os.copy_file_range(opened.fileno(), made.fileno(), _BYTES_PER_CALL, done, done)
            ):
                done += copied
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
        opened.seek(done)
        made.seek(done)
        shutil.copyfileobj(opened, made)
