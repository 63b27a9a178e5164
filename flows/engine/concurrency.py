"""Limits of concurrency: request slots, slots for open scans, and tasks that fail together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count

from connectors.warehouse.storage.errors import WarehouseError

# A scan that waits costs some 25 kB. Beyond this many, scans that wait keep their places, and no scan is begun.
_MOST_PARKED = 20_000

# Open scans for each request in flight: while one lands its page, another asks, and short scans share the requests
# evenly, so that a run does not end with a few scans in flight. More would only cost memory.
_OPEN = 4

# Scans with this many more pages go first: a long one would otherwise be left over at the end, alone.
_LONG = 8


class RequestSlots:
    """Slots for requests in flight: the longest scan goes first, in steps of 8 pages, then the earliest request."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    @asynccontextmanager
    async def one(self, pages: int) -> AsyncIterator[None]:
        """Hold a slot while the block runs; `pages` is how many the scan has landed."""
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


class Slots:
    """Places for open scans. A limited account parks outside, so that it holds up only itself."""

    def __init__(self, places: int, most_parked: int = _MOST_PARKED, *, in_flight: int | None = None) -> None:
        self.requests = RequestSlots(in_flight or places)
        self._most_parked = most_parked
        self._places = asyncio.Semaphore(places)
        self._missing = 0
        self.parked = 0

    @classmethod
    def for_requests(cls, in_flight: int) -> "Slots":
        """Return the places that keep this many requests in flight."""
        return cls(_OPEN * in_flight, in_flight=in_flight)

    async def take(self) -> None:
        """Wait for a place and take it."""
        await self._places.acquire()

    def give(self) -> None:
        """Give a place back."""
        if self._missing:
            self._missing -= 1
        else:
            self._places.release()

    @asynccontextmanager
    async def place_released(self) -> AsyncIterator[None]:
        """Give the place back while the block runs, and take one again after it.

        A task that is cancelled meanwhile does not wait for a place only to give it back: it may never come.
        """
        if self.parked >= self._most_parked:
            yield
            return
        self.give()
        self.parked += 1
        try:
            yield
            await self._places.acquire()
        except BaseException:
            # It goes without the place that it will nevertheless give back.
            self._missing += 1
            raise
        finally:
            self.parked -= 1


def first_error(errors: ExceptionGroup[Exception]) -> Exception:
    """Return one error of a group, however deep: what a person can fix first."""
    found: Exception = errors.subgroup(WarehouseError) or errors
    while isinstance(found, ExceptionGroup):
        found = found.exceptions[0]
    return found


@asynccontextmanager
async def fail_fast_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks as one: the first that fails cancels the others, and what it raised is raised here."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as errors:
        error = first_error(errors)
        # What it came of stays; the group around it says nothing more.
        raise error from error.__cause__
