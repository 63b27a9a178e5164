"""Makes standard streams robust: a log that cannot be written must not end a run."""

import io
import os
import sys
from contextlib import suppress

_STREAMS = (0, 1, 2)


class _Forgiving(io.FileIO):
    """Standard error that drops what cannot be written, because of a closed pipe or a full disk."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError:
            return len(memoryview(data))  # type: ignore[arg-type]


def keep_usable() -> None:
    """Open closed standard streams, and make standard error drop what cannot be written.

    The next opened file, which could be the warehouse, would get the descriptor of a closed stream.
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
        # With PYTHONUNBUFFERED, the rest of a partial write to a pipe, such as after a signal, would be lost.
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), sys.stdout.encoding, line_buffering=True)
    encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
    written = io.BufferedWriter(_Forgiving(2, "wb", closefd=False))
    sys.stderr = io.TextIOWrapper(written, encoding, "backslashreplace", line_buffering=True, write_through=True)


def drop_output() -> None:
    """Discard the buffered standard output: otherwise Python would fail to flush it and exit with code 120."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
