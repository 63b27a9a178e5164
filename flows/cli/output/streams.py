"""Standard streams that stay usable: a log that cannot be written must not end a run."""

import io
import os
import sys
from contextlib import suppress

_STREAMS = (0, 1, 2)


class _Forgiving(io.FileIO):
    """Standard error whose reader may be gone and whose disk may be full: what cannot be written is dropped."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError:
            return len(memoryview(data))  # type: ignore[arg-type]


def keep_usable() -> None:
    """Open what is closed of standard input, output and error, and let standard error drop what it cannot write.

    A closed descriptor would be given to the next file that is opened, which could be the warehouse.
    """
    for number in _STREAMS:
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - the signature is os's
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "wb", closefd=False), encoding="utf-8")
    elif isinstance(sys.stdout, io.TextIOWrapper) and isinstance(raw := sys.stdout.buffer, io.RawIOBase):
        # With PYTHONUNBUFFERED, what a pipe does not take at once, as when a signal comes, would be lost.
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), sys.stdout.encoding, line_buffering=True)
    encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
    written = io.BufferedWriter(_Forgiving(2, "wb", closefd=False))
    sys.stderr = io.TextIOWrapper(written, encoding, "backslashreplace", line_buffering=True, write_through=True)


def drop_output() -> None:
    """Let what is still to be written to standard output go nowhere: Python would end with 120 over it."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
