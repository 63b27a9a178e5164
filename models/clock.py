"""What a clock is, and what one that was wrong has left."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

CLOCK_STEP = timedelta(minutes=15)
"""A smaller difference does not make a clock wrong: NTP may step it, and a run's times continue after the step."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """Stored times that are in the future: how many, and the last."""

    count: int
    last: datetime


class Clock(Protocol):
    """The one source of time and sleep; tests pass a virtual one."""

    def now(self) -> datetime:
        """Return the wall time, timezone-aware and in UTC, for everything that is stored or shown."""
        ...

    def monotonic(self) -> float:
        """Return monotonic seconds, for measuring waits within one process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling coroutine for this many seconds."""
        ...
