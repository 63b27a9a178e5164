"""Decides when trouble is everywhere: the service is away, and the accounts have no trouble of their own.

Then one request at a time asks, at growing intervals, until something answers.
"""

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from connectors.source.errors import ApiError, Disposition

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
    """Return whether the service may be away. Whoever sends a page, or names the time to wait, is there."""
    failure = error.failure
    return failure.disposition is Disposition.RETRY and failure.status != HTTPStatus.OK and error.retry_after is None
