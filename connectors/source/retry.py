"""Decides what follows a failed request: another try, a wait of its rate-limit scope, or the end of the scan."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from connectors.source.endpoints import ApiRequest
from connectors.source.errors import LIMITS, ApiError, Disposition, Failure
from connectors.source.responses import Response

Send = Callable[[ApiRequest], Awaitable[Response]]

# Attempts at a page in all, and seconds: a retry waits a random share of `_FIRST`, twice that, ..., at most `_CAP`.
TRIES: Final = 6
_FIRST: Final = 0.5
_CAP: Final = 60.0

# A cooldown is as long as the service requires, but at least this; without Retry-After it increases to `_CAP`. Its
# jitter only adds: up to a share of the wait, at most these seconds.
_LEAST_WAIT: Final = 1.0
_WAIT_JITTER: Final = 0.1
_MOST_JITTER: Final = 5.0

# After these failures of a page, each one more halves the limit of the requests that follow, down to this.
_PATIENCE: Final = 2
_LEAST_LIMIT: Final = 5


@dataclass(frozen=True, slots=True)
class Verdict:
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
        failure, wait = error.failure, error.retry_after
        waits = of_key or failure.disposition is Disposition.WAIT
        number = 0 if of_key else self._count(failure)
        if not waits and failure.disposition is not Disposition.RETRY:
            return Verdict(retries=False)
        retries = waits or number < TRIES
        if waits and wait is None:
            wait = _exponential(_LEAST_WAIT, number)
        if wait is not None:
            # Otherwise Retry-After: 0 would use up all tries immediately.
            least = max(wait, _LEAST_WAIT)
            return Verdict(retries, least + random() * min(least * _WAIT_JITTER, _MOST_JITTER), whole_scope=True)
        return Verdict(retries, random() * _exponential(_FIRST, number) if retries else 0.0)

    def _count(self, failure: Failure) -> int:
        self.failures[failure.disposition] += 1
        number = self.failures[failure.disposition]
        is_late = failure.disposition is Disposition.RETRY and number >= _PATIENCE
        if is_late and self.limit > _LEAST_LIMIT and _may_be_size(failure):
            self.limit, self.reduced_by = max(self.limit // 2, _LEAST_LIMIT), failure.code
        return number


def _may_be_size(failure: Failure) -> bool:
    """Return whether a smaller page might not have failed."""
    is_broken = failure.status is not None and failure.status >= 500 and failure.status not in LIMITS
    return is_broken or failure.status == 200 or failure.code in {"timeout", "connection_reset"}


def _exponential(first: float, attempt: int) -> float:
    # The exponent is limited, because the number of attempts at a rate limit is not.
    return min(_CAP, first * 2.0 ** min(max(attempt - 1, 0), 64))
