"""Wait for states of another process, read from /proc and its pipes."""

import fcntl
import os
import struct
import termios
from pathlib import Path

from tests.operator import wait_until

# The size of the process's writes: a pipe with less free space counts as full.
_WRITE = 8192


def wait_for_cpu_use(pid: int, *, threads: int = 3, seconds: float = 0.1) -> None:
    """Wait until a process has `threads` threads (DuckDB has started) and has used this CPU time since."""
    process = Path("/proc", str(pid))

    def used() -> int:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    wait_until(lambda: len(list((process / "task").iterdir())) >= threads, "the threads of DuckDB")
    before, ticks = used(), int(seconds * os.sysconf("SC_CLK_TCK"))
    wait_until(lambda: used() >= before + ticks, "the use of CPU time")


def wait_for_full_pipe(pipe: int) -> None:
    """Wait until the writer of a pipe is blocked because the pipe is full."""
    size = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
    wait_until(
        lambda: struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0] > size - _WRITE, "a full pipe"
    )
