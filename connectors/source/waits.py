"""How long requests wait: a page after a failure, a rate-limit scope after a limit, all while the service is away.

Trouble everywhere is an outage: the accounts have no trouble of their own. Then one request at a time asks, at growing
intervals, until something answers.
"""

import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from connectors.source.errors import RETRY, WAIT, ApiError, Deferred, Disposition
from connectors.source.messages import ApiRequest, Response
from models.clock import Clock

Sleep = Callable[[float], Awaitable[None]]
Send = Callable[[ApiRequest], Awaitable[Response]]

# Attempts at a page in all, and seconds: a retry waits a random share of `_FIRST`, twice that, ..., at most `_LONGEST`.
TRIES = 6
_FIRST = 0.5
_LONGEST = 60.0

# A cooldown is as long as the service requires, but at least this; without Retry-After it increases to `_LONGEST`. Its
# jitter only adds: up to a share of the wait, at most these seconds.
_LEAST_WAIT = 1.0
_WAIT_JITTER = 0.1
_MOST_JITTER = 5.0

# After these failures of a page, each one more halves the limit of the requests that follow, down to this.
_PATIENCE = 2
_LEAST_LIMIT = 5


class Verdict(NamedTuple):
    """What follows a failure: a retry after `delay` seconds, or without `retries` the error is final.

    With `whole_scope` the scope's other requests wait for `delay` seconds, too.
    """

    retries: bool
    delay: float = 0.0
    whole_scope: bool = False


@dataclass(slots=True)
class Attempts:
    """How a scan asks for its pages: the `limit` of items, and the `failures` of the page that is requested next.

    `reduced_by` is the code of the failure that reduced the limit last.
    """

    limit: int
    failures: Counter[Disposition] = field(default_factory=Counter)
    reduced_by: str | None = None

    def decide(self, error: ApiError, random: Callable[[], float], *, of_key: bool) -> Verdict:
        """Count a failure, and return what follows; `random` returns 0 to 1.

        A limit `of_key` says nothing about the page: it is waited for, and not counted. Waits for any limit are no
        tries; the budget of the scope limits them.
        """
        kind, number = error.rule.disposition, 0
        if not of_key:
            self.failures[kind] += 1
            number = self.failures[kind]
            if kind is RETRY and number >= _PATIENCE and _may_be_size(error) and self.limit > _LEAST_LIMIT:
                self.limit, self.reduced_by = max(self.limit // 2, _LEAST_LIMIT), error.code
        waits = of_key or kind is WAIT
        if not waits and kind is not RETRY:
            return Verdict(retries=False)
        retries, wait = waits or number < TRIES, error.retry_after
        if wait is None and not waits:
            return Verdict(retries, random() * _exponential(_FIRST, number))
        # At least a second: otherwise Retry-After: 0 would use up all tries immediately.
        least = _exponential(_LEAST_WAIT, number) if wait is None else max(wait, _LEAST_WAIT)
        return Verdict(retries, least + random() * min(least * _WAIT_JITTER, _MOST_JITTER), whole_scope=True)


def _may_be_size(error: ApiError) -> bool:
    """Return whether a smaller page might not have failed."""
    is_broken = error.status is not None and error.status >= 500 and not error.is_limit
    return is_broken or error.status == 200 or error.code in {"timeout", "connection_reset"}


def _exponential(first: float, attempt: int) -> float:
    # The exponent is limited, because the number of attempts at a rate limit is not.
    return min(_LONGEST, first * 2.0 ** min(max(attempt - 1, 0), 64))


@dataclass(slots=True)
class RateLimitBudget:
    """The cooldown of one rate-limit scope (API 4, rate-limit descriptor) and the time waited for it in one run.

    `not_before` is a monotonic time; `waited` and `max_wait` are seconds. `pages` were received since the last limit.
    `cause` is the error that began the cooldown, unless an earlier process received it.
    """

    scope: str
    max_wait: float
    not_before: float = -math.inf
    waited: float = 0.0
    pages: int = 0
    cause: ApiError | None = None

    def start_cooldown(self, seconds: float, monotonic: float, cause: ApiError | None = None) -> None:
        """Begin a cooldown of this many seconds. It never shortens an earlier one."""
        self.not_before = max(self.not_before, monotonic + seconds)
        self.cause = cause or self.cause

    async def wait(self, clock: Clock, sleep: Sleep) -> None:
        """Wait until a request may be sent. Raises Deferred if that takes more of the run's time than is left."""
        # A loop, because a sleep may end early, and no request may be sent before the cooldown is over.
        while (due := self.not_before - (began := clock.monotonic())) > 0:
            if self.waited + due > self.max_wait:
                raise Deferred(self.resume_after(clock.now(), began), self.cause)
            await sleep(due)
            self.waited += clock.monotonic() - began

    def resume_after(self, now: datetime, monotonic: float) -> datetime:
        """Return when the cooldown ends, in wall-clock time (UTC), to be stored."""
        return now + timedelta(seconds=max(0.0, self.not_before - monotonic))


# Passing errors of this many rate-limit scopes, for this many seconds without an answer in between, are an outage. A
# run that scans fewer accounts has only the tries of each page.
_SCOPES = 4
_LEAST_OUTAGE = 1.0


@dataclass(frozen=True, slots=True)
class Outage:
    """What came back since the last answer, which was at `answered_at`. Times are monotonic seconds.

    `failed` are the scopes with passing errors since then. In an outage no request may be sent before `next_at`, after
    a `pause`, which is twice as long as the one before; without an outage it is 0.
    """

    answered_at: float
    failed: frozenset[str] = frozenset()
    pause: float = 0.0
    next_at: float = 0.0

    @property
    def is_on(self) -> bool:
        """Whether the service is away."""
        return self.pause > 0

    def observe(self, scope: str, error: ApiError | None, now: float) -> "Outage":
        """Return what is known after the end of a request of a rate-limit scope; `error` None: it got a page."""
        # It is there if it sends status 200, or names a time to wait.
        if error is None or error.rule.disposition is not RETRY or error.retry_after is not None or error.status == 200:
            return Outage(answered_at=now)
        if now < self.next_at:
            # What was sent before the outage was noticed says nothing new.
            return self
        seen = replace(self, failed=self.failed | {scope})
        if not self.is_on and (len(seen.failed) < _SCOPES or now - self.answered_at < _LEAST_OUTAGE):
            return seen
        pause = min(2 * self.pause, _LONGEST) or _LEAST_WAIT
        return replace(seen, pause=pause, next_at=now + pause)
