"""The real clock and id generator, which tests replace, and the clock of a run."""

import asyncio
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
        await asyncio.sleep(seconds)


class SteadyClock:
    """A clock that never goes back, so that nothing is stamped earlier than what it follows.

    It returns no time up to `after`. While the clock that it reads is behind, because it was set back, time passes as
    the monotonic clock measures it.
    """

    def __init__(self, clock: Clock, after: datetime | None) -> None:
        self._clock = clock
        self._last = clock.now() if after is None else after + timedelta(microseconds=1)
        self._read_at = clock.monotonic()

    def now(self) -> datetime:
        """Return the time of day, UTC, or a later time that follows the last one returned."""
        now, read_at = self._clock.now(), self._clock.monotonic()
        if now < self._last:
            now = self._last + timedelta(seconds=read_at - self._read_at)
        self._last, self._read_at = now, read_at
        return now

    def real(self) -> datetime:
        """Return the time of day, UTC, even if it is earlier than one returned before."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling coroutine for this many seconds."""
        await self._clock.sleep(seconds)


def new_id() -> str:
    """Return an id for a run or a scan."""
    return uuid4().hex
