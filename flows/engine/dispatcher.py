"""The requests of a run's scans: how many at once, how fast, whether at all, and what follows when one fails."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial

from connectors.source.errors import ApiError, Disposition
from connectors.source.messages import Response
from connectors.source.request_rate import RequestRate
from connectors.source.waits import Outage, RateLimitBudget
from flows.config.settings import Settings
from flows.engine.resources import RunResources
from flows.engine.scan import Scan
from flows.reporting.progress import notices
from models.checkpoint import ScopeCooldown

_log = logging.getLogger(__name__)

# Accounts whose scans are under way, or sleep: each takes about 25 kB, and 100 bytes for each item that it has listed.
_OPEN_ACCOUNTS = 2_000

# For each request in flight, so many accounts are scanned at a time, without those that sleep: one waits for its page,
# the others for pages to land or for their turn.
_AWAKE_ACCOUNTS = 4

# So many pages for each request in flight may wait to land: a kill loses them.
_PAGES_AHEAD = 2

SCOPE_DENIED = "api_scope_denied"

# A shorter sleep would not advance a clock.
_LEAST_SLEEP = 1e-6


class RequestsEnded(Exception):  # noqa: N818 - the scan has no error of its own
    """The run has made as many requests as it may, or no other one can succeed."""


class Dispatcher:
    """Sends the requests of scans: as many at once, and in all, as the run may, at the `rate` of the service.

    In an outage one at a time asks; after the longest wait of the settings the run stops. `stopped_by` is the error
    that ended all scans. `opening` is held while scans of accounts begin. If the number of requests is limited, to
    `most`, as many accounts are open as requests are in flight, so that those that come first are asked first, however
    long landing takes.
    """

    def __init__(self, settings: Settings, resources: RunResources, most: int | None = None) -> None:
        self.clock, self.progress = resources.clock, resources.progress
        self.rate = RequestRate(settings.requests_per_second)
        self._ask, self._random, self._most = resources.send, resources.random, most
        self._land = resources.warehouse.land
        self._settings = settings
        self._open = asyncio.Semaphore(_OPEN_ACCOUNTS if most is None else settings.concurrency)
        self._awake = asyncio.Semaphore(_AWAKE_ACCOUNTS * settings.concurrency)
        self.opening = asyncio.Lock()
        self._in_flight = asyncio.Semaphore(settings.concurrency)
        self._pages_ahead = asyncio.Semaphore(_PAGES_AHEAD * settings.concurrency)
        self._outage = Outage(self.clock.monotonic())
        self._probing, self._pacing = asyncio.Lock(), asyncio.Lock()
        self._sent_at = -math.inf
        self._asleep: set[asyncio.Future[None]] = set()
        self.stopped_by: ApiError | None = None

    @property
    def is_spent(self) -> bool:
        """Whether the run has made as many requests as it may."""
        return self._most is not None and self.progress.requests >= self._most

    @property
    def has_ended(self) -> bool:
        """Whether no request of media may be sent any more."""
        return self.stopped_by is not None or self.is_spent

    def _check(self, scan: Scan) -> None:
        """Raise RequestsEnded if no request of a scan may be sent any more. The catalogue needs no grant of media."""
        needs_grant = scan.feed is not None or (self.stopped_by and self.stopped_by.code != SCOPE_DENIED)
        if self.is_spent or (self.has_ended and needs_grant):
            raise RequestsEnded

    def stop(self, error: ApiError) -> None:
        """End all scans, because of an error that makes their requests useless."""
        self.stopped_by = self.stopped_by or error
        self._wake()

    def _wake(self) -> None:
        for sleeping in self._asleep:
            sleeping.cancel()

    async def open_account(self) -> None:
        """Wait until one more account, or the catalogue, may be scanned."""
        await self._open.acquire()
        await self._awake.acquire()

    def close_account(self) -> None:
        """Let another one be scanned."""
        self._awake.release()
        self._open.release()

    async def sleep(self, scan: Scan, seconds: float) -> None:
        """Let a scan sleep before its next request, and other accounts be scanned meanwhile. Raises RequestsEnded."""
        self._awake.release()
        try:
            await self._sleep(scan, seconds)
        finally:
            await self._awake.acquire()

    async def _sleep(self, scan: Scan, seconds: float) -> None:
        """Let a scan sleep; if no request is left for it, it is woken. Raises RequestsEnded."""
        self._check(scan)
        sleeping = asyncio.ensure_future(self.clock.sleep(seconds))
        self._asleep.add(sleeping)
        self.progress.waiting += 1
        try:
            await asyncio.wait([sleeping])
        finally:
            sleeping.cancel()
            self._asleep.discard(sleeping)
            self.progress.waiting -= 1
        self._check(scan)

    @asynccontextmanager
    async def page(self, scan: Scan) -> AsyncIterator[Response]:
        """Yield the page of a scan that is due, once it comes; it waits to land until the block ends.

        The caller must not request other pages of the scope meanwhile. Raises ApiError if one is final, Deferred if the
        scope's cooldown takes too long, and RequestsEnded.
        """
        while True:
            if scan.budget.not_before > self.clock.monotonic():
                until = scan.budget.resume_after(self.clock.now(), self.clock.monotonic())
                self.progress.cooldowns[scan.budget.scope] = until
            await scan.budget.wait(self.clock, partial(self.sleep, scan))
            async with self._pages_ahead:
                try:
                    response = await self._send(scan)
                except ApiError as error:
                    failed = error.with_traceback(None)
                else:
                    yield response
                    return
            await self._wait_after(failed, scan)

    async def _send(self, scan: Scan) -> Response:
        """Request a page once. Raises ApiError and RequestsEnded."""
        async with self._in_flight, self._probing if self._outage.is_on else nullcontext():
            if (wait := self._outage.next_at - self.clock.monotonic()) > 0:
                await self._sleep(scan, wait)
            await self._keep_pace()
            self._check(scan)
            self.progress.requests += 1
            self.progress.retries += bool(scan.attempts.failures)
            if self.is_spent:
                self._wake()
            try:
                response = await self._ask(scan.request)
            except ApiError as error:
                self._observe(scan.budget, error)
                is_away = self.clock.monotonic() - self._outage.answered_at > self._settings.max_wait
                if self._outage.is_on and is_away:
                    self.stop(error)
                raise
        self._observe(scan.budget, None)
        scan.attempts.failures.clear()
        return response

    async def _keep_pace(self) -> None:
        """Wait until the rate allows a request."""
        async with self._pacing:
            while True:
                now = self.clock.monotonic()
                per_second = self.rate.per_second(now)
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
            notices.warning(f"The service does not answer ({error.code}); one request at a time asks again.")
        limited = error is not None and error.is_limit
        if error is None or limited or error.rule.disposition is not Disposition.RETRY:
            pages, budget.pages = budget.pages, 0 if limited else budget.pages + 1
            self.rate = self.rate.observe(budget.scope, limited=limited, now=now, pages=pages)
            self.progress.refused += limited
            self.progress.allowed = self.rate.allowed if self.rate.is_limited(now) else None

    async def _wait_after(self, error: ApiError, scan: Scan) -> None:
        """Return when the page of a scan may be requested again; raise the error if it is final."""
        if self._outage.is_on and error.rule.disposition is Disposition.RETRY:
            # It says nothing about its account, so it is no try. The next one waits for its turn to ask.
            return
        # A limit that refuses several scopes is probably one of the whole key.
        is_limited = self.rate.is_limited(self.clock.monotonic()) or len(self._outage.failed) > 1
        verdict = scan.attempts.decide(error, self._random, of_key=error.is_limit and is_limited)
        if verdict.whole_scope:
            # It lands before it is waited for, so that it survives a kill.
            scan.budget.start_cooldown(verdict.delay, self.clock.monotonic(), error)
            now = self.clock.now()
            until = scan.budget.resume_after(now, self.clock.monotonic())
            await self._land(ScopeCooldown(scan.budget.scope, until, now))
        if not verdict.retries:
            raise error
        facts = scan.about | error.facts | {"retry_in": round(verdict.delay, 1)}
        who = f"{scan.partition} ({scan.account.username})" if scan.account.username else scan.partition
        at = (self._settings.base_url or "").partition("://")[2]
        _log.info("%s at %s: %s; retry in %.1f s", who, at, error, verdict.delay, extra=facts)
        if not verdict.whole_scope:
            await self.sleep(scan, verdict.delay)
