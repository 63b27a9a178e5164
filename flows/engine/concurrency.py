"""Concurrency: slots for requests and open scans, the rate of requests, what stops them, and groups of tasks."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count

from connectors.source.errors import Failure
from connectors.source.request_rate import RequestRate
from connectors.warehouse.storage.errors import WarehouseError
from models.clock import Clock

# A waiting scan costs about 25 kB. Beyond this number, waiting scans keep their slots, so that no new scan begins.
_MOST_RELEASED = 20_000

# Open scans per request in flight: while one lands its page, another sends a request, and short scans share the
# requests evenly, so that a run does not end with a few scans in flight. More would only cost memory.
_OPEN = 4

# A shorter sleep would not advance a clock.
_LEAST_SLEEP = 1e-6

# A scan with this many more pages goes first: otherwise a long one would remain at the end, alone.
_LONG = 8


class RequestSlots:
    """Slots for requests in flight: the longest scan goes first, in steps of 8 pages, then the earliest request."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    @asynccontextmanager
    async def one(self, pages: int) -> AsyncIterator[None]:
        """Hold a slot while the block runs; `pages` is the number of pages that the scan has landed."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(pages)
        try:
            yield
        finally:
            self._give()

    async def _wait(self, pages: int) -> None:
        granted = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (-(pages // _LONG), next(self._arrivals), granted))
        try:
            await granted
        except BaseException:
            if granted.done() and not granted.cancelled():
                # Cancelled after the slot was handed over.
                self._give()
            raise

    def _give(self) -> None:
        while self._waiting:
            *_, granted = heappop(self._waiting)
            if not granted.done():
                granted.set_result(None)
                return
        self._free += 1


class Pacer:
    """Spaces the requests of a process by `rate`, which its answers change."""

    def __init__(self, rate: RequestRate) -> None:
        self.rate = rate
        self._sent_at = -math.inf
        self._turn = asyncio.Lock()

    async def turn(self, clock: Clock, sleep: Callable[[float], Awaitable[None]], check: Callable[[], None]) -> None:
        """Wait until a request may be sent. `check` is called before each sleep and at the end; it may raise."""
        async with self._turn:
            while True:
                check()
                now = clock.monotonic()
                per_second = self.rate.per_second(now)
                interval = 1 / per_second if per_second else 0.0
                wait = self._sent_at + interval - now
                if wait < _LEAST_SLEEP:
                    # A sleep that was too long makes the next one shorter, but a pause does not allow a burst.
                    self._sent_at = max(self._sent_at + interval, now - interval)
                    return
                await sleep(wait)


class Slots(asyncio.Semaphore):
    """Slots for open scans. A scan that sleeps (cooldown, retry) releases its slot, so it delays only itself.

    At most _MOST_RELEASED scans have released their slots at a time; further ones keep them while they sleep.
    """

    def __init__(self, slots: int, *, in_flight: int | None = None) -> None:
        super().__init__(slots)
        self.requests = RequestSlots(in_flight or slots)
        self.released = 0
        # Held by the batch that starts scans.
        self.starting = asyncio.Lock()

    @classmethod
    def for_requests(cls, in_flight: int) -> "Slots":
        """Return enough slots to keep this many requests in flight."""
        return cls(_OPEN * in_flight, in_flight=in_flight)

    @asynccontextmanager
    async def release_slot(self) -> AsyncIterator[None]:
        """Release the slot while the block runs, and take one again after it.

        A task that is cancelled in the block takes no slot, as it might never get one; then the whole run ends.
        """
        if self.released >= _MOST_RELEASED:
            yield
            return
        self.release()
        self.released += 1
        try:
            yield
        finally:
            self.released -= 1
        await self.acquire()


class RunStopped(Exception):  # noqa: N818 - the error is its attribute
    """The scan of a partition ends, because `failure` stopped the run."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class StopSignal:
    """Set once, by an error that ends the run or only its media scans: `failure`. It ends every sleep on it."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        self._woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def set(self, failure: Failure) -> None:
        """Set the signal; only the first error is kept."""
        self.failure = self.failure or failure
        self.wake()

    def wake(self) -> None:
        """End every sleep, also later ones: there is nothing to wait for."""
        if not self._woken.done():
            self._woken.set_result(None)

    def check(self) -> None:
        """Raise RunStopped if the signal is set."""
        if self.failure is not None:
            raise RunStopped(self.failure)

    async def wait(self) -> None:
        """Wait until sleeps end."""
        await asyncio.wait((self._woken,))

    async def sleep(self, clock: Clock, seconds: float) -> None:
        """Sleep until the time is over or sleeps end. Raises what `clock.sleep` raises."""
        sleeping = asyncio.ensure_future(clock.sleep(seconds))
        try:
            await asyncio.wait((sleeping, self._woken), return_when=asyncio.FIRST_COMPLETED)
            if sleeping.done():
                sleeping.result()
        finally:
            sleeping.cancel()
            await asyncio.gather(sleeping, return_exceptions=True)


@asynccontextmanager
async def fail_fast_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks in a group: the first one that fails cancels the others, and its exception is raised, not a group.

    If several fail, an error of the warehouse is raised, as it must be fixed first.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as errors:
        error: Exception = errors.subgroup(WarehouseError) or errors
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        # The cause is kept; the group adds no information.
        raise error from error.__cause__
