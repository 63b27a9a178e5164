"""The progress of a run: an updated line on a terminal, otherwise a line every 15 seconds."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.spinner import Spinner

from flows.cli.output import json_log
from flows.cli.output.terminal import DATED, err
from flows.clock import SystemClock
from flows.reporting.pace import Pace
from flows.reporting.progress import Progress

_FRAMES = 8
_PLAIN_EVERY = 15.0


@contextmanager
def watch(progress: Progress) -> Iterator[None]:
    """Show the progress of a run while the block runs."""
    clock = SystemClock()
    pace = Pace(clock)
    if err.is_terminal:
        spinner = Spinner("dots", text="")

        def frame() -> Spinner:
            spinner.update(text=pace.line(progress))
            return spinner

        with Live(get_renderable=frame, console=err, refresh_per_second=_FRAMES, transient=True):
            yield
        return
    ended = threading.Event()

    def speak() -> None:
        while not ended.wait(_PLAIN_EVERY):
            at = "" if json_log.in_force() else f"{clock.now():{DATED}} "
            err.print(f"{at}{pace.line(progress)}", soft_wrap=True)

    speaker = threading.Thread(target=speak, name="progress", daemon=True)
    speaker.start()
    try:
        yield
    finally:
        ended.set()
        speaker.join()
