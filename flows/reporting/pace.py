"""The progress of a run in words, with an estimate of the remaining time."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from rich.progress import Progress as RichProgress

from flows.reporting.progress import Progress
from flows.reporting.words import count, moment, per_second, span
from models.clock import Clock

# The rate is measured over this many seconds: long enough for a stable rate, short enough to follow changes.
_WINDOW: Final = 60.0

# Estimates below this many seconds are shown as "less than".
_LEAST: Final = 10


class Pace:
    """Estimates the remaining time of a run that begins now. `seconds_left` must be called every few seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._accounts = RichProgress(speed_estimate_period=_WINDOW, get_time=clock.monotonic)
        self._task = self._accounts.add_task("accounts", total=None)

    def seconds_left(self, progress: Progress) -> float | None:
        """Return the estimated remaining seconds, or None if there is no estimate yet."""
        self._accounts.update(self._task, completed=progress.accounts_done, total=progress.accounts)
        [accounts] = self._accounts.tasks
        return accounts.time_remaining if progress.catalogue_complete else None

    def line(self, progress: Progress) -> str:
        """Return the progress, the time that has passed, and the outlook, as text."""
        ahead = outlook(progress, self._clock.now(), self.seconds_left(progress))
        return line(progress, self._clock.monotonic() - self._began, ahead)


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


def outlook(progress: Progress, now: datetime, seconds_left: float | None) -> Iterator[str]:
    """Yield, as text, a limit of the service, the end of active cooldowns, and the estimated remaining time, if any."""
    if progress.allowed is not None:
        yield f"the service allows {per_second(progress.allowed)}; pace kept"
    # A copy, because the run updates them in another thread.
    cooldowns = [until for until in list(progress.cooldowns.values()) if until > now]
    if cooldowns:
        last = max(cooldowns)
        at = f"{last:%H:%M:%S}" if last.date() == now.date() else f"{last:%Y-%m-%d %H:%M:%S}"
        the_last = ", the last" if len(cooldowns) > 1 else ""
        yield f"{count(len(cooldowns), 'cooldown')}{the_last} until {at} UTC"
        if progress.waiting and seconds_left is not None:
            seconds_left = max(seconds_left, (min(cooldowns) - now).total_seconds())
    if seconds_left is not None:
        yield f"about {span(round(seconds_left))} left" if seconds_left >= _LEAST else f"less than {_LEAST} s left"
        next_run = progress.next_run
        if progress.allowed is not None and next_run and next_run < now + timedelta(seconds=seconds_left):
            yield f"longer than its schedule allows: the next run is due at {moment(next_run)} UTC"
