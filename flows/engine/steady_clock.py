"""The clock of everything that a command stores: it never goes back."""

from datetime import datetime, timedelta

from connectors.warehouse.maintenance.future_times import check_clock
from connectors.warehouse.warehouse import Warehouse
from models.clock import CLOCK_STEP, Clock


class SteadyClock:
    """A clock that begins at `first` or later, and never goes back.

    While the clock that it reads is behind, because it was set back, time passes as the monotonic clock measures it.
    """

    def __init__(self, clock: Clock, first: datetime) -> None:
        self._clock = clock
        self._last = first
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

    def set_back(self) -> None:
        """Return to the real time, because times after it were moved back."""
        self._last = self._clock.now()

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling coroutine for this many seconds."""
        await self._clock.sleep(seconds)


async def steady_clock(warehouse: Warehouse, clock: Clock) -> SteadyClock:
    """Return a clock that continues after the times in the warehouse.

    Times too far in the future are left for `repair`. Raises WarehouseUnusable if the clock is behind.
    """
    now = clock.now()
    found = await warehouse.read(lambda connection: check_clock(connection.db, now))
    if not found or found.last - now > CLOCK_STEP:
        return SteadyClock(clock, now)
    return SteadyClock(clock, found.last + timedelta(microseconds=1))
