"""The progress of a run in words, with an estimate of the remaining time."""

from collections.abc import Iterator
from datetime import timedelta
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
    """Describes a run that begins now, and estimates its remaining time. `line` must be called every few seconds."""

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
        return " · ".join(self.parts(progress, self.seconds_left(progress)))

    def parts(self, progress: Progress, seconds_left: float | None) -> Iterator[str]:
        """Yield the counts, a limit of the service, the end of active cooldowns, and the remaining time, if any."""
        now, more = self._clock.now(), "" if progress.catalogue_complete else "+"
        yield f"{progress.accounts_done:,} of {progress.accounts:,}{more} accounts"
        yield f"{progress.pages:,} pages"
        yield f"{progress.items:,} records"
        if progress.waiting:
            yield f"{progress.waiting:,} waiting"
        if progress.retries:
            yield f"{progress.retries:,} retried"
        yield f"{self._clock.monotonic() - self._began:,.0f} s"
        if progress.allowed is not None:
            yield f"the service allows {per_second(progress.allowed)}; pace kept"
        # A copy, because the run updates them in another thread.
        cooldowns = [until for until in list(progress.cooldowns.values()) if until > now]
        if cooldowns:
            the_last = ", the last" if len(cooldowns) > 1 else ""
            yield f"{count(len(cooldowns), 'cooldown')}{the_last} until {moment(max(cooldowns), seconds=True)} UTC"
            if progress.waiting and seconds_left is not None:
                seconds_left = max(seconds_left, (min(cooldowns) - now).total_seconds())
        if seconds_left is not None:
            yield f"about {span(round(seconds_left))} left" if seconds_left >= _LEAST else f"less than {_LEAST} s left"
            next_run = progress.next_run
            if progress.allowed is not None and next_run and next_run < now + timedelta(seconds=seconds_left):
                yield f"longer than its schedule allows: the next run is due at {moment(next_run)} UTC"
