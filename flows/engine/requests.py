"""The requests of a run's scans: how many at once, how fast, and whether at all."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from connectors.source.errors import ApiError, Disposition, Failure
from connectors.source.rate_limit import Outage, RateLimitBudget
from connectors.source.request_rate import RequestRate
from flows.engine.run_request import RunRequest
from flows.reporting.progress import Progress, notices
from models.clock import Clock

# Accounts whose scans are under way, or sleep: each takes about 25 kB.
_OPEN_ACCOUNTS = 2_000

# A shorter sleep would not advance a clock.
_LEAST_SLEEP = 1e-6


class RequestsSpent(Exception):  # noqa: N818 - a limit that the user set, not an error
    """The run has made as many requests as it may."""


class StopRun(Exception):  # noqa: N818 - the error is its attribute
    """No other request can succeed, because of `failure`: all scans end."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Requests:
    """Lets scans send their requests: as many at once, and in all, as the run may, at the `rate` of the service.

    In an outage one at a time asks; after the longest wait of the settings the run stops. `open_accounts` is held for
    each account that is scanned. If the number of requests is limited, these are as many as requests in flight, so that
    those that come first are asked first, however long landing takes.
    """

    def __init__(self, request: RunRequest, rate: RequestRate, clock: Clock, progress: Progress) -> None:
        self.rate = rate
        self.clock = clock
        self._most, concurrency = request.options.max_requests, request.settings.concurrency
        self._max_wait = request.settings.max_wait
        self.open_accounts = asyncio.Semaphore(_OPEN_ACCOUNTS if self._most is None else concurrency)
        self._in_flight = asyncio.Semaphore(concurrency)
        self._progress = progress
        self._outage = Outage(clock.monotonic())
        self._probing = asyncio.Lock()
        self._sent_at = -math.inf
        self._pacing = asyncio.Lock()
        self._asleep: set[asyncio.Task[Any] | None] = set()

    @property
    def are_spent(self) -> bool:
        """Whether the run has made as many requests as it may."""
        return self._most is not None and self._progress.requests >= self._most

    @property
    def is_outage(self) -> bool:
        """Whether the service is away; then an error says nothing about its account."""
        return self._outage.is_on

    def is_limited(self) -> bool:
        """Return whether a limit that refused a request is probably one of the whole key, which refuses others, too."""
        return self.rate.is_limited(self.clock.monotonic()) or len(self._outage.failed) > 1

    def check(self) -> None:
        """Raise RequestsSpent if no request may be sent any more."""
        if self.are_spent:
            raise RequestsSpent

    async def sleep(self, seconds: float) -> None:
        """Let a scan sleep before its next request. If no request is left for it, it ends: its task is cancelled."""
        self.check()
        task = asyncio.current_task()
        self._asleep.add(task)
        self._progress.waiting = len(self._asleep)
        try:
            await self.clock.sleep(seconds)
        finally:
            self._asleep.discard(task)
            self._progress.waiting = len(self._asleep)

    @asynccontextmanager
    async def one(self, budget: RateLimitBudget, *, is_retry: bool) -> AsyncIterator[None]:
        """Send a request in the block.

        Raises RequestsSpent, and StopRun with the last error if an outage lasts too long.
        """
        async with self._in_flight, self._probing if self._outage.is_on else nullcontext():
            if (wait := self._outage.next_at - self.clock.monotonic()) > 0:
                await self.clock.sleep(wait)
            await self._keep_pace()
            self.check()
            self._progress.requests += 1
            self._progress.retries += is_retry
            if self.are_spent:
                for sleeping in filter(None, self._asleep):
                    sleeping.cancel()
            try:
                yield
            except ApiError as error:
                self._observe(budget, error)
                if self._outage.is_on and self.clock.monotonic() - self._outage.answered_at > self._max_wait:
                    raise StopRun(error.failure) from error
                raise
            self._observe(budget, None)

    async def _keep_pace(self) -> None:
        """Wait until the rate allows a request."""
        async with self._pacing:
            while True:
                now, per_second = self.clock.monotonic(), self.rate.per_second(self.clock.monotonic())
                interval = 1 / per_second if per_second else 0.0
                if (wait := self._sent_at + interval - now) < _LEAST_SLEEP:
                    # A sleep that was too long makes the next one shorter, but a pause does not allow a burst.
                    self._sent_at = max(self._sent_at + interval, now - interval)
                    return
                await self.clock.sleep(wait)

    def _observe(self, budget: RateLimitBudget, error: ApiError | None) -> None:
        """Adapt the rate of requests to an answer, and notice an outage and its end."""
        now, was_on = self.clock.monotonic(), self._outage.is_on
        self._outage = self._outage.observe(budget.scope, error, now)
        if error is not None and self._outage.is_on and not was_on:
            notices.warning(f"The service does not answer ({error.failure.code}); one request at a time asks again.")
        limited = error is not None and error.is_limit
        if error is None or limited or error.failure.disposition is not Disposition.RETRY:
            pages, budget.pages = budget.pages, 0 if limited else budget.pages + 1
            self.rate = self.rate.observe(budget.scope, limited=limited, now=now, pages=pages)
            self._progress.refused += limited
            self._progress.allowed = self.rate.allowed if self.rate.is_limited(now) else None
