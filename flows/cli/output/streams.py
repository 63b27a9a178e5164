"""Makes standard streams robust: a log that cannot be written must not end a run."""

import io
import os
import sys
from contextlib import suppress
from typing import TextIO


class _Forgiving(io.FileIO):
    """Standard error that drops what cannot be written, because of a closed pipe or a full disk."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError:
            return len(memoryview(data))  # type: ignore[arg-type]


def keep_usable() -> None:
    """Open closed standard streams, and make standard error drop what cannot be written.

    The next opened file, which could be the warehouse, would get the descriptor of a closed stream. What the encoding
    of a stream lacks is written with a backslash.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - the signature is os's
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - a descriptor
    # With PYTHONUNBUFFERED, Python's own stream loses the rest of a partial write to a pipe, such as after a signal.
    is_immediate = isinstance(sys.stdout, io.TextIOWrapper) and (sys.stdout.line_buffering or sys.stdout.write_through)
    sys.stdout = _stream(io.FileIO(1, "wb", closefd=False), sys.stdout, is_immediate=is_immediate)
    sys.stderr = _stream(_Forgiving(2, "wb", closefd=False), sys.stderr, is_immediate=True)


def _stream(file: io.FileIO, before: TextIO | None, *, is_immediate: bool) -> io.TextIOWrapper:
    encoding = "utf-8" if before is None else before.encoding
    return io.TextIOWrapper(io.BufferedWriter(file), encoding, "backslashreplace", line_buffering=is_immediate)


def drop_output() -> None:
    """Discard the buffered standard output: otherwise Python would fail to flush it and exit with code 120."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
