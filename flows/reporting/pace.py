"""Estimates the remaining time of a run from the number of items that its scans are expected to find."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from rich.progress import Progress

from flows.engine.run_context import Counters
from flows.reporting.words import count, span

# The rate is measured over this many seconds: long enough for a stable rate, short enough to follow changes.
_WINDOW: Final = 60.0

# Estimates below this many seconds are shown as "less than".
_LEAST: Final = 10

# Scans of unknown length are assumed to be as long as those that ended, if there are at most this many per ended scan.
_UNKNOWN_PER_ENDED: Final = 10


def items_left(counters: Counters) -> float | None:
    """Estimate the number of media items that are still to be scanned; None while too little is known.

    A partition is expected to have as many items as its last scan found.
    """
    if not counters.catalogue_complete:
        return None
    if not counters.unknown:
        return counters.items_left
    if counters.unknown > counters.ended * _UNKNOWN_PER_ENDED:
        return None
    return counters.items_left + counters.unknown * counters.ended_items / counters.ended


class Pace:
    """Estimates the remaining time by a clock in seconds. `seconds_left` must be called every few seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._progress = Progress(speed_estimate_period=_WINDOW, get_time=monotonic)
        self._items = self._progress.add_task("items", total=None)

    def seconds_left(self, counters: Counters) -> float | None:
        """Return the estimated remaining seconds, or None if there is no estimate yet."""
        self._progress.update(self._items, completed=counters.items)
        [items] = self._progress.tasks
        left = items_left(counters)
        return left / items.speed if left and items.speed else None


def outlook(counters: Counters, now: datetime, seconds_left: float | None) -> Iterator[str]:
    """Yield, as text, the end of the active cooldowns and the estimated remaining time, if there are any."""
    # A copy, because the run changes the counters in another thread.
    cooldowns = [until for until in list(counters.cooldowns.values()) if until > now]
    if cooldowns:
        last = max(cooldowns)
        at = f"{last:%H:%M:%S}" if last.date() == now.date() else f"{last:%Y-%m-%d %H:%M:%S}"
        the_last = ", the last" if len(cooldowns) > 1 else ""
        yield f"{count(len(cooldowns), 'cooldown')}{the_last} until {at} UTC"
        if counters.waiting and seconds_left is not None:
            seconds_left = max(seconds_left, (min(cooldowns) - now).total_seconds())
    if seconds_left is not None:
        yield f"about {span(round(seconds_left))} left" if seconds_left >= _LEAST else f"less than {_LEAST} s left"
