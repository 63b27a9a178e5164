"""How many walks are at work at once; one that merely waits gives its place to another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# A walk that waits costs some 25 kB. Past so many, those who wait keep their places, and no walk is begun.
_MOST_PARKED = 20_000


class Slots:
    """Places for walks. A limited account parks outside, so that it holds up nobody but itself."""

    def __init__(self, places: int, most_parked: int = _MOST_PARKED) -> None:
        self._most_parked = most_parked
        self._places = asyncio.Semaphore(places)
        self._missing = 0
        self.parked = 0

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
    async def parked_outside(self) -> AsyncIterator[None]:
        """Give the place back while the block runs, and take one again after it.

        Whoever is cancelled meanwhile does not wait for a place only to give it back: it may never come.
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
