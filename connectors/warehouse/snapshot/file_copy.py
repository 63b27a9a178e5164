"""Copies a file with the operating system: a clone if the file system can share blocks, otherwise all bytes."""

import errno
import fcntl
import os
from pathlib import Path

from connectors.warehouse.storage.durable import open_without_symlinks, write

# The Linux ioctl that makes a file share the blocks of another one.
_FICLONE = 0x40049409

_BYTES_PER_CALL = 64 * 1024 * 1024
_PIECE = 1024 * 1024

# Error codes of a kernel or file system that does not support these copies; others are errors of the disk.
_CANNOT = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTTY, errno.EPERM, errno.EBADF}


def _is_cloned(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        return False
    return True


def _copy_in_kernel(source: int, target: int, size: int) -> int:
    """Return how many bytes the kernel copied, from the beginning; less than `size` if it cannot copy all of them."""
    done = 0
    while done < size and hasattr(os, "copy_file_range"):
        try:
            copied = os.copy_file_range(source, target, min(_BYTES_PER_CALL, size - done), done, done)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            break
        if not copied:
            break
        done += copied
    return done


def copy_file(source: int, target: Path) -> None:
    """Copy the file of an open descriptor to a new file, without fsync. Raises OSError.

    The descriptor remains open, and its position does not change.
    """
    with open(target, "xb", opener=open_without_symlinks) as made:
        if _is_cloned(source, made.fileno()):
            return
        size = os.fstat(source).st_size
        done = _copy_in_kernel(source, made.fileno(), size)
        os.lseek(made.fileno(), done, os.SEEK_SET)
        while done < size:
            piece = os.pread(source, _PIECE, done)
            if not piece:
                break
            write(made.fileno(), piece)
            done += len(piece)
