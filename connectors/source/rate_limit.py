"""The remaining cooldown of one rate-limit scope, and how long a run may wait for it."""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from connectors.source.errors import Deferred, Failure
from models.clock import Clock

Sleep = Callable[[float], Awaitable[None]]

# Two days before the last one, so that it can be shown in every time zone.
_END_OF_TIME = datetime(9999, 12, 30, tzinfo=UTC)


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

    @classmethod
    def seeded(
        cls, scope: str, max_wait: float, resume_after: datetime | None, *, now: datetime, monotonic: float
    ) -> "RateLimitBudget":
        """Create a budget with the cooldown that an earlier process stored, if any."""
        wait = cls(scope, max_wait)
        if resume_after is not None:
            wait.start_cooldown((resume_after - now).total_seconds(), monotonic)
        return wait

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
        left = (_END_OF_TIME - now).total_seconds()
        return now + timedelta(seconds=min(self.due(monotonic), left))
