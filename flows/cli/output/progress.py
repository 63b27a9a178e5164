"""The progress of a run: an updated line on a terminal, otherwise a line every 15 seconds."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.spinner import Spinner

from flows.cli.output import json_log
from flows.cli.output.terminal import DATED, err
from flows.clock import SystemClock
from flows.reporting.pace import Pace, outlook
from flows.reporting.progress import Progress

_FRAMES = 8
_PLAIN_EVERY = 15.0


def line(progress: Progress, seconds: float, outlook: Iterable[str] = ()) -> str:
    """Return the progress of a run after a number of seconds, as text."""
    more = "" if progress.catalogue_complete else "+"
    parts = [
        f"{progress.accounts_done:,} of {progress.accounts:,}{more} accounts",
        f"{progress.pages:,} pages",
        f"{progress.items:,} records",
    ]
    if progress.waiting:
        parts.append(f"{progress.waiting:,} waiting")
    if progress.retries:
        parts.append(f"{progress.retries:,} retried")
    return " · ".join([*parts, f"{seconds:,.0f} s", *outlook])


@contextmanager
def watch(progress: Progress) -> Iterator[None]:
    """Show the progress of a run while the block runs."""
    clock = SystemClock()
    began, pace = clock.monotonic(), Pace(clock.monotonic)

    def present() -> str:
        ahead = outlook(progress, clock.now(), pace.seconds_left(progress))
        return line(progress, clock.monotonic() - began, ahead)

    if err.is_terminal:
        spinner = Spinner("dots", text="")

        def frame() -> Spinner:
            spinner.update(text=present())
            return spinner

        with Live(get_renderable=frame, console=err, refresh_per_second=_FRAMES, transient=True):
            yield
        return
    ended = threading.Event()

    def speak() -> None:
        while not ended.wait(_PLAIN_EVERY):
            at = "" if json_log.in_force() else f"{clock.now():{DATED}} "
            err.print(f"{at}{present()}", soft_wrap=True)

    speaker = threading.Thread(target=speak, name="progress", daemon=True)
    speaker.start()
    try:
        yield
    finally:
        ended.set()
        speaker.join()
