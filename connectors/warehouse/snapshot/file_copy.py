"""Copies a file with the operating system: a clone if the file system can share blocks, otherwise all bytes."""

import errno
import fcntl
import os
from pathlib import Path

from connectors.warehouse.storage.durable import open_without_symlinks, write

# Linux's ioctl that makes a file share another's blocks.
_FICLONE = 0x40049409

_AT_ONCE = 64 * 1024 * 1024
_PIECE = 1024 * 1024

# How a kernel or file system states that it cannot copy by itself; anything else is an error of the disk.
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
    """Return how many bytes the kernel copied: all, or only the first where it cannot copy (the rest)."""
    done = 0
    while done < size and hasattr(os, "copy_file_range"):
        try:
            copied = os.copy_file_range(source, target, min(_AT_ONCE, size - done), done, done)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            break
        if not copied:
            break
        done += copied
    return done


def copy_file(source: int, target: Path) -> None:
    """Copy the file that a handle reads to a new file, which is not yet durable. Raises OSError.

    The source's handle is neither moved nor closed.
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
