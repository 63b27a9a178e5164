"""How long requests wait: those of one rate-limit scope after a limit, and all of them while the service is away.

Trouble everywhere is an outage: the accounts have no trouble of their own. Then one request at a time asks, at growing
intervals, until something answers.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final

from connectors.source.errors import ApiError, Deferred, Disposition, Failure
from models.clock import Clock

Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True)
class RateLimitBudget:
    """The cooldown of one rate-limit scope (API 4, rate-limit descriptor) and the time waited for it in one run.

    `not_before` is a monotonic time; `waited` and `max_wait` are seconds. `pages` were received since the last limit.
    `cause` is the error that began the cooldown, unless an earlier process received it. The current time is always an
    argument.
    """

    scope: str
    max_wait: float
    not_before: float = -math.inf
    waited: float = 0.0
    pages: int = 0
    cause: Failure | None = None

    def start_cooldown(self, seconds: float, monotonic: float, cause: Failure | None = None) -> None:
        """Begin a cooldown of this many seconds. It never shortens an earlier one."""
        self.not_before = max(self.not_before, monotonic + seconds)
        self.cause = cause or self.cause

    def due(self, monotonic: float) -> float:
        """Return the remaining seconds of the cooldown; 0 if a request may be sent."""
        return max(0.0, self.not_before - monotonic)

    async def wait(self, clock: Clock, sleep: Sleep) -> None:
        """Wait until a request may be sent. Raises Deferred if that takes more of the run's time than is left."""
        # A loop, because a sleep may end early, and no request may be sent before the cooldown is over.
        while due := self.due(clock.monotonic()):
            if self.waited + due > self.max_wait:
                raise Deferred(self.scope, self.resume_after(clock.now(), clock.monotonic()), self.cause)
            began = clock.monotonic()
            await sleep(due)
            self.waited += clock.monotonic() - began

    def resume_after(self, now: datetime, monotonic: float) -> datetime:
        """Return when the cooldown ends, in wall-clock time (UTC), to be stored."""
        return now + timedelta(seconds=self.due(monotonic))


# Passing errors of this many rate-limit scopes, for this many seconds without an answer in between, are an outage. A
# run that scans fewer accounts has only the tries of each page.
_SCOPES: Final = 4
_LEAST: Final = 1.0

# Seconds between two requests in an outage: at first, and at most. Each pause is twice as long as the one before.
_FIRST: Final = 1.0
_LONGEST: Final = 60.0


@dataclass(frozen=True, slots=True)
class Outage:
    """What came back since the last answer, which was at `answered_at`. Times are monotonic seconds.

    `failed` are the scopes with passing errors since then. In an outage no request may be sent before `next_at`, after
    a `pause`; without one the pause is 0.
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
        if error is None or not _is_absence(error):
            return Outage(answered_at=now)
        if self.is_on and now < self.next_at:
            # What was sent before the outage was noticed says nothing new.
            return self
        seen = replace(self, failed=self.failed | {scope})
        if not self.is_on and (len(seen.failed) < _SCOPES or now - self.answered_at < _LEAST):
            return seen
        pause = min(2 * self.pause, _LONGEST) or _FIRST
        return replace(seen, pause=pause, next_at=now + pause)


def _is_absence(error: ApiError) -> bool:
    """Return whether the service may be away. It is not if it sends status 200, or names a time to wait."""
    failure = error.failure
    return failure.disposition is Disposition.RETRY and failure.status != HTTPStatus.OK and error.retry_after is None
