"""The progress of a run: an updated line on a terminal, otherwise a line every 15 seconds."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from flows.cli.output.terminal import dated, err
from flows.clock import SystemClock
from flows.reporting.pace import Pace
from flows.reporting.progress import Progress

# Seconds between updates of the line, and between lines.
_UPDATED, _PLAIN = 0.125, 15.0


@contextmanager
def watch(progress: Progress) -> Iterator[None]:
    """Show the progress of a run while the block runs."""
    pace, ended = Pace(SystemClock()), threading.Event()
    status = err.status(pace.line(progress)) if err.is_terminal else None

    def speak() -> None:
        while not ended.wait(_PLAIN if status is None else _UPDATED):
            if status is None:
                err.print(f"{dated()}{pace.line(progress)}", soft_wrap=True)
            else:
                status.update(pace.line(progress))

    speaker = threading.Thread(target=speak, name="progress", daemon=True)
    speaker.start()
    try:
        with status or nullcontext():
            yield
    finally:
        ended.set()
        speaker.join()
