"""What ends a scan from outside: an error that stops the run, or a limit of requests."""

import asyncio

from connectors.source.errors import Failure
from models.clock import Clock


class RunStopped(Exception):  # noqa: N818 - the error is its attribute
    """The scan of a partition ends, because `failure` stopped the run."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class RequestsSpent(Exception):  # noqa: N818 - a limit that the user set, not an error
    """The run has made as many requests as it may."""


class StopSignal:
    """Set once, by an error that ends the run or only its media scans. It ends every sleep on it."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        self._set = asyncio.Event()

    def set(self, failure: Failure) -> None:
        """Set the signal; only the first error is kept."""
        if self.failure is None:
            self.failure = failure
            self._set.set()

    def check(self) -> None:
        """Raise RunStopped if the signal is set."""
        if self.failure is not None:
            raise RunStopped(self.failure)

    async def wait(self) -> None:
        """Wait until the signal is set."""
        await self._set.wait()

    async def sleep(self, clock: Clock, seconds: float) -> None:
        """Sleep until the time is over or the signal is set. Raises what `clock.sleep` raises."""
        waits = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(self._set.wait())]
        try:
            over, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        for wait in over:
            wait.result()
