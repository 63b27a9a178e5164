"""Copies a file in the kernel, which shares the blocks if the file system can; otherwise through memory."""

import errno
import os
import shutil
from pathlib import Path

from connectors.warehouse.storage.durable import open_without_symlinks

_BYTES_PER_CALL = 64 * 1024 * 1024

# Error codes of a kernel or file system that does not support such copies; others are errors of the disk.
_CANNOT = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}


def _copy_in_kernel(source: int, target: int) -> int:
    """Return how many bytes the kernel copied, from the beginning."""
    done = 0
    try:
        while copied := os.copy_file_range(source, target, _BYTES_PER_CALL, done, done):
            done += copied
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    return done


def copy_file(source: int, target: Path) -> None:
    """Copy the file of an open descriptor to a new file, without fsync. Raises OSError.

    The descriptor remains open, and its position does not change.
    """
    position = os.lseek(source, 0, os.SEEK_CUR)
    with open(target, "xb", opener=open_without_symlinks) as made, open(source, "rb", closefd=False) as opened:
        # Only Linux has this call.
        done = _copy_in_kernel(source, made.fileno()) if hasattr(os, "copy_file_range") else 0
        try:
            opened.seek(done)
            made.seek(done)
            shutil.copyfileobj(opened, made)
        finally:
            os.lseek(source, position, os.SEEK_SET)
