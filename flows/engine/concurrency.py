"""Concurrency: slots for requests and open scans, the rate of requests, and groups of tasks that fail together."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count

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

    def __init__(self, rate: RequestRate | None = None) -> None:
        self.rate = rate or RequestRate()
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


class Slots:
    """Slots for open scans. A scan that sleeps (cooldown, retry) releases its slot, so it delays only itself.

    At most `most_released` scans have released their slots at a time; further ones keep them while they sleep.
    """

    def __init__(self, slots: int, most_released: int = _MOST_RELEASED, *, in_flight: int | None = None) -> None:
        self.requests = RequestSlots(in_flight or slots)
        self._most_released = most_released
        self._slots = asyncio.Semaphore(slots)
        self._missing = 0
        self.released = 0
        # Held by the batch that starts scans.
        self.starting = asyncio.Lock()

    @classmethod
    def for_requests(cls, in_flight: int) -> "Slots":
        """Return enough slots to keep this many requests in flight."""
        return cls(_OPEN * in_flight, in_flight=in_flight)

    def add(self, slots: int) -> None:
        """Add slots."""
        for _ in range(slots):
            self.give()

    async def take(self) -> None:
        """Wait for a slot and take it."""
        await self._slots.acquire()

    def give(self) -> None:
        """Release a slot."""
        if self._missing:
            self._missing -= 1
        else:
            self._slots.release()

    @asynccontextmanager
    async def release_slot(self) -> AsyncIterator[None]:
        """Release the slot while the block runs, and take one again after it.

        A task that is cancelled in the block does not wait for a slot only to release it: it might never get one.
        """
        if self.released >= self._most_released:
            yield
            return
        self.give()
        self.released += 1
        try:
            yield
            await self._slots.acquire()
        except BaseException:
            # The task ends without the slot that it will nevertheless release.
            self._missing += 1
            raise
        finally:
            self.released -= 1


def first_error(errors: ExceptionGroup[Exception]) -> Exception:
    """Return one error of a group, however deep; a warehouse error if there is one, as it must be fixed first."""
    found: Exception = errors.subgroup(WarehouseError) or errors
    while isinstance(found, ExceptionGroup):
        found = found.exceptions[0]
    return found


@asynccontextmanager
async def fail_fast_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks in a group: the first one that fails cancels the others, and its exception is raised, not a group."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as errors:
        error = first_error(errors)
        # The cause is kept; the group adds no information.
        raise error from error.__cause__
