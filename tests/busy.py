"""What another process is at, as Linux tells of it."""

import fcntl
import os
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path

# A pipe into which a write of this many bytes does not fit is full.
_WRITE = 8192


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "waited a minute"
        time.sleep(0.01)


def computes(pid: int, *, threads: int = 3) -> None:
    """Wait until a process has so many threads, that is until DuckDB has begun, and has then used some CPU."""
    process = Path("/proc", str(pid))

    def used() -> int:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    _until(lambda: len(list((process / "task").iterdir())) >= threads)
    before, hundredths = used(), os.sysconf("SC_CLK_TCK") // 10
    _until(lambda: used() >= before + hundredths)


def blocks_on(pipe: int) -> None:
    """Wait until what writes into a pipe waits for its reader."""
    size = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    _until(lambda: struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0] > size - _WRITE)
