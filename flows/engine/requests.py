"""The requests of a run's scans: how many at once, how fast, and whether at all."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from heapq import heappop, heappush
from itertools import count

from connectors.source.errors import ApiError, Disposition, Failure
from connectors.source.outage import Outage
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.request_rate import RequestRate
from flows.reporting.progress import Progress, notices
from models.clock import Clock

# Accounts whose scans are under way, or sleep: each takes about 25 kB.
_OPEN_ACCOUNTS = 2_000

# A shorter sleep would not advance a clock.
_LEAST_SLEEP = 1e-6

Turn = tuple[int, int]


class RequestSlots:
    """A semaphore for requests in flight, which lets the least turn of those that wait go first."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: list[tuple[Turn, int, asyncio.Future[None]]] = []
        self._arrivals = count()

    @asynccontextmanager
    async def one(self, turn: Turn) -> AsyncIterator[None]:
        """Hold a slot while the block runs."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(turn)
        try:
            yield
        finally:
            self._give()

    async def _wait(self, turn: Turn) -> None:
        granted = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (turn, next(self._arrivals), granted))
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
    """Spaces requests by `rate`, which their answers change."""

    def __init__(self, rate: RequestRate, clock: Clock) -> None:
        self.rate = rate
        self._clock = clock
        self._sent_at = -math.inf
        self._turn = asyncio.Lock()

    async def wait(self) -> None:
        """Wait until a request may be sent."""
        async with self._turn:
            while True:
                now = self._clock.monotonic()
                per_second = self.rate.per_second(now)
                interval = 1 / per_second if per_second else 0.0
                wait = self._sent_at + interval - now
                if wait < _LEAST_SLEEP:
                    # A sleep that was too long makes the next one shorter, but a pause does not allow a burst.
                    self._sent_at = max(self._sent_at + interval, now - interval)
                    return
                await self._clock.sleep(wait)


class RequestsSpent(Exception):  # noqa: N818 - a limit that the user set, not an error
    """The run has made as many requests as it may."""


class StopRun(Exception):  # noqa: N818 - the error is its attribute
    """No other request can succeed, because of `failure`: all scans end."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Requests:
    """Lets scans send their requests.

    At most `concurrency` are in flight, at the rate that the service allows, and `most` in all. In an outage one at a
    time asks; after `max_wait` seconds of it the run stops.

    `open_accounts` is held for each account that is scanned. If the run may only make `most` requests, these are as
    many accounts as requests in flight, so that those that come first are asked first, however long landing takes.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        rate: RequestRate,
        most: int | None,
        max_wait: float,
        clock: Clock,
        progress: Progress,
    ) -> None:
        self.pacer = Pacer(rate, clock)
        self.open_accounts = asyncio.Semaphore(_OPEN_ACCOUNTS if most is None else concurrency)
        self._slots = RequestSlots(concurrency)
        self._most = most
        self._max_wait = max_wait
        self._clock = clock
        self._progress = progress
        self._outage = Outage(clock.monotonic())
        self._probing = asyncio.Lock()
        self._asleep: set[asyncio.Future[None]] = set()

    @property
    def are_spent(self) -> bool:
        """Whether the run has made as many requests as it may."""
        return self._most is not None and self._progress.requests >= self._most

    async def sleep(self, seconds: float) -> None:
        """Let a scan sleep before its next request; it ends when there is none left for it."""
        self._check_left()
        if self._most is not None:
            # Another account is scanned meanwhile.
            self.open_accounts.release()
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        self._asleep.add(sleeping)
        self._progress.waiting = len(self._asleep)
        try:
            await asyncio.wait((sleeping,))
        finally:
            sleeping.cancel()
            self._asleep.discard(sleeping)
            self._progress.waiting = len(self._asleep)
            if self._most is not None:
                await self.open_accounts.acquire()
        self._check_left()
        sleeping.result()

    def _check_left(self) -> None:
        if self.are_spent:
            raise RequestsSpent

    @property
    def is_outage(self) -> bool:
        """Whether the service is away; then an error says nothing about its account."""
        return self._outage.is_on

    def is_limited(self) -> bool:
        """Return whether a limit that refused a request is probably one of the whole key, which refuses others, too."""
        return self.pacer.rate.is_limited(self._clock.monotonic()) or len(self._outage.failed) > 1

    @asynccontextmanager
    async def one(self, budget: RateLimitBudget, turn: Turn, *, is_retry: bool) -> AsyncIterator[None]:
        """Send a request in the block; of the scans that wait, the one with the least `turn` goes first.

        Raises RequestsSpent, and StopRun with the last error if an outage lasts too long.
        """
        async with self._slots.one(turn), self._probing if self._outage.is_on else nullcontext():
            if (wait := self._outage.next_at - self._clock.monotonic()) > 0:
                await self._clock.sleep(wait)
            await self.pacer.wait()
            self._check_left()
            self._progress.requests += 1
            self._progress.retries += is_retry
            if self.are_spent:
                for sleeping in self._asleep:
                    sleeping.cancel()
            try:
                yield
            except ApiError as error:
                self._observe(budget, error)
                if self._outage.is_on and self._clock.monotonic() - self._outage.answered_at > self._max_wait:
                    raise StopRun(error.failure) from error
                raise
            self._observe(budget, None)

    def _observe(self, budget: RateLimitBudget, error: ApiError | None) -> None:
        """Adapt the rate of requests to an answer, and notice an outage and its end."""
        now, was_on = self._clock.monotonic(), self._outage.is_on
        self._outage = self._outage.observe(budget.scope, error, now)
        if error is not None and self._outage.is_on and not was_on:
            notices.warning(f"The service does not answer ({error.failure.code}); one request at a time asks again.")
        limited = error is not None and error.is_limit
        if error is None or limited or error.failure.disposition is not Disposition.RETRY:
            pages, budget.pages = budget.pages, 0 if limited else budget.pages + 1
            self.pacer.rate = rate = self.pacer.rate.observe(budget.scope, limited=limited, now=now, pages=pages)
            self._progress.refused += limited
            self._progress.allowed = rate.allowed if rate.is_limited(now) else None
