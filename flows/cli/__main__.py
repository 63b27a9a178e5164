"""The entry point of the command line: `gramhouse`, or `python -m flows.cli`.

It imports little: until `run`, Ctrl-C is a traceback.
"""

import gc
import io
import os
import signal
import sys
from typing import TextIO

from flows.process import prepare_process


class _Forgiving(io.FileIO):
    """Standard error that drops what cannot be written, because of a closed pipe or a full disk: no run ends so."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError:
            return len(memoryview(data))  # type: ignore[arg-type]


def _text(file: io.FileIO, before: TextIO | None) -> io.TextIOWrapper:
    """Return a stream: in UTF-8, but in a terminal's own encoding. What that lacks is written with a backslash."""
    is_terminal = before is not None and file.isatty()
    encoding = before.encoding if before is not None and is_terminal else "utf-8"
    return io.TextIOWrapper(io.BufferedWriter(file), encoding, "backslashreplace", line_buffering=is_terminal)


def _prepare_streams() -> None:
    """Open closed standard streams: the next opened file, which could be the warehouse, would get their descriptor."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - the signature is os's
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - a descriptor
    sys.stdout = _text(io.FileIO(1, "wb", closefd=False), sys.stdout)
    sys.stderr = _text(_Forgiving(2, "wb", closefd=False), sys.stderr)


def run() -> None:
    """Run the command line, and exit with its code."""
    # Ctrl-C ends the process, as other signals do. A shell's background command ignores it.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _prepare_streams()
    prepare_process()
    from flows.cli.app import main

    try:
        main()
    finally:
        # Otherwise Python looks for cycles among all objects before it ends, which takes 0.2 s after a sync.
        gc.freeze()


if __name__ == "__main__":
    run()
