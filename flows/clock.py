"""The clocks, which tests replace, and the id generator."""

import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from models.clock import Clock


class SystemClock:
    """The system's wall time in UTC, and its monotonic clock, which measures waits."""

    def now(self) -> datetime:
        """Return the time of day, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling coroutine for this many seconds."""
        # Imported here, because commands that read the time do not need it.
        import asyncio  # noqa: PLC0415

        await asyncio.sleep(seconds)


class ContinuedClock:
    """A clock that shows `at` when it is created, and goes on with the monotonic time of another one."""

    def __init__(self, clock: Clock, at: datetime) -> None:
        self._clock = clock
        self._at = at
        self._read_at = clock.monotonic()
        self.monotonic, self.sleep = clock.monotonic, clock.sleep

    def now(self) -> datetime:
        """Return the time of day, UTC."""
        return self._at + timedelta(seconds=self.monotonic() - self._read_at)


class SteadyClock(ContinuedClock):
    """The clock of what a command stores: that of another one, but it begins at `at` or later, and never goes back."""

    def now(self) -> datetime:
        """Return the time of day, UTC, or a later time that follows the last one returned."""
        now = self._clock.now()
        # Only then: the monotonic clock may be faster than the other one, by a microsecond or by what NTP corrects.
        self._at, self._read_at = now if now >= self._at else super().now(), self.monotonic()
        return self._at


def new_id() -> str:
    """Return an id for a run or a scan."""
    return uuid4().hex
