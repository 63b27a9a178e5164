"""The remaining cooldown of one tenant scope, and how long a run may wait for it."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class RateLimitBudget:
    """The wait of one tenant scope (API 4, rate-limit descriptor) within one run.

    `not_before` is monotonic; `waited` and `max_wait` are seconds. Time is handed in, never taken.
    """

    scope: str
    max_wait: float
    not_before: float = -math.inf
    waited: float = 0.0

    @classmethod
    def seeded(
        cls, scope: str, max_wait: float, resume_after: datetime | None, *, now: datetime, monotonic: float
    ) -> "RateLimitBudget":
        """Begin with the cooldown that an earlier process was given and wrote down, if it did."""
        wait = cls(scope, max_wait)
        if resume_after is not None:
            wait.start_cooldown((resume_after - now).total_seconds(), monotonic)
        return wait

    def start_cooldown(self, seconds: float, monotonic: float) -> None:
        """Leave the scope alone for so long from now; a cooldown never shortens an earlier one."""
        self.not_before = max(self.not_before, monotonic + seconds)

    def due(self, monotonic: float) -> float:
        """Seconds the scope must still be left alone: 0 when it may be asked."""
        return max(0.0, self.not_before - monotonic)

    def affords(self, seconds: float) -> bool:
        """Whether so long a wait is within what is left of the run's budget for this scope."""
        return self.waited + seconds <= self.max_wait

    def spend(self, seconds: float) -> None:
        """Count seconds that were waited."""
        self.waited += seconds

    def resume_after(self, now: datetime, monotonic: float) -> datetime:
        """Say when the cooldown ends, in wall time (UTC), to be written down."""
        try:
            return now + timedelta(seconds=self.due(monotonic))
        except OverflowError:
            return _END_OF_TIME
