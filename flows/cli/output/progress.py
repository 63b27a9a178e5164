"""The progress of a run: an updated line on a terminal, otherwise a line every 15 seconds."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.spinner import Spinner

from flows.cli.output import json_log
from flows.cli.output.terminal import DATED, err
from flows.engine.clock import SystemClock
from flows.engine.run_context import Counters
from flows.reporting.pace import Pace, outlook

_FRAMES = 8
_PLAIN_EVERY = 15.0


def line(counters: Counters, seconds: float, outlook: Iterable[str] = ()) -> str:
    """Return the progress of a run after a number of seconds, as text."""
    more = "" if counters.catalogue_complete else "+"
    parts = [
        f"{counters.accounts_done:,} of {counters.accounts:,}{more} accounts",
        f"{counters.pages:,} pages",
        f"{counters.items:,} records",
    ]
    if counters.waiting:
        parts.append(f"{counters.waiting:,} waiting")
    if counters.retries:
        parts.append(f"{counters.retries:,} retried")
    return " · ".join([*parts, f"{seconds:,.0f} s", *outlook])


@contextmanager
def watch(counters: Counters) -> Iterator[None]:
    """Show the counters while the block runs."""
    clock = SystemClock()
    began, pace = clock.monotonic(), Pace(clock.monotonic)

    def present() -> str:
        ahead = outlook(counters, clock.now(), pace.seconds_left(counters))
        return line(counters, clock.monotonic() - began, ahead)

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
