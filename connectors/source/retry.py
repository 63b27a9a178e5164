"""Fetches one page with retries, until success, a permanent failure, or a wait longer than this run allows."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from connectors.source.endpoints import ApiRequest, Response
from connectors.source.errors import LIMITS, ApiError, Disposition, Failure
from connectors.source.rate_limit import RateLimitBudget, Sleep
from models.clock import Clock

Send = Callable[[ApiRequest], Awaitable[Response]]
Slot = Callable[[], AbstractAsyncContextManager[object]]
OnWait = Callable[[str, datetime], Awaitable[None]]

_log = logging.getLogger(__name__)


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


def decide(error: ApiError, attempt: int, random: Callable[[], float], *, waits: bool) -> Verdict:
    """Decide what follows the `attempt`-th failure (from 1) of this kind; `random` returns 0 to 1.

    An error that `waits` for a rate limit does not count as a try; the scope's budget limits the waits.
    """
    if not waits and error.failure.disposition is not Disposition.RETRY:
        return Verdict(retries=False)
    retries, wait = waits or attempt < TRIES, error.retry_after
    if waits and wait is None:
        wait = _exponential(_LEAST_WAIT, attempt)
    if wait is not None:
        # Otherwise Retry-After: 0 would use up all tries immediately.
        least = max(wait, _LEAST_WAIT)
        return Verdict(retries, least + random() * min(least * _WAIT_JITTER, _MOST_JITTER), whole_scope=True)
    return Verdict(retries, random() * _exponential(_FIRST, attempt) if retries else 0.0)


@dataclass(slots=True)
class Attempts:
    """How a scan asks for its pages: the `limit` of items, and the `failures` of the page that is requested next.

    `reduced_by` is the code of the failure that reduced the limit last.
    """

    limit: int
    failures: Counter[Disposition] = field(default_factory=Counter)
    reduced_by: str | None = None

    def note(self, failure: Failure) -> int:
        """Count a failure of the page; return how many of its disposition there were."""
        self.failures[failure.disposition] += 1
        number = self.failures[failure.disposition]
        is_late = failure.disposition is Disposition.RETRY and number >= _PATIENCE
        if is_late and self.limit > _LEAST_LIMIT and _may_be_size(failure):
            self.limit, self.reduced_by = max(self.limit // 2, _LEAST_LIMIT), failure.code
        return number


async def fetch_with_retry(
    send: Send,
    make_request: Callable[[int], ApiRequest],
    attempts: Attempts,
    budget: RateLimitBudget,
    *,
    clock: Clock,
    random: Callable[[], float],
    slot: Slot,
    sleep: Sleep,
    on_wait: OnWait,
    is_limit_of_key: Callable[[ApiError], bool],
    is_outage: Callable[[], bool],
    about: Mapping[str, object],
    host: str,
) -> Response:
    """Request one page, with the waits and retries that `TRIES` and the scope's budget allow.

    `make_request` builds the request for a limit. Every request is made inside `slot()`, every wait is a `sleep`. An
    error that `is_limit_of_key` is waited for and not counted; neither are those in an outage, in which `slot()` waits
    for the turn to ask again. `on_wait` is awaited for each new cooldown before the
    wait for it begins, so that the cooldown can be stored and survives a kill. Log records name `host` and have the
    fields of `about`. The caller must not send concurrent requests of one scope.

    Raises the last ApiError when it gives up, and Deferred when the scope's wait exceeds its budget.
    """
    while True:
        await budget.wait(clock, sleep)
        request = make_request(attempts.limit)
        try:
            async with slot():
                response = await send(request)
        except ApiError as error:
            if is_outage() and error.failure.disposition is Disposition.RETRY and error.retry_after is None:
                continue
            last, of_key = error.failure, is_limit_of_key(error)
            number = 0 if of_key else attempts.note(last)
            verdict = decide(error, number, random, waits=of_key or last.disposition is Disposition.WAIT)
            if verdict.whole_scope:
                monotonic = clock.monotonic()
                budget.start_cooldown(verdict.delay, monotonic, last)
                await on_wait(budget.scope, budget.resume_after(clock.now(), monotonic))
            if not verdict.retries:
                raise
        else:
            attempts.failures.clear()
            return response
        at = f" at {host}" if host else ""
        name = f" ({about['username']})" if about.get("username") else ""
        facts = {**about, **last.facts, "retry_in": round(verdict.delay, 1)}
        _log.info("%s%s%s: %s; retry in %.1f s", request.partition, name, at, last, verdict.delay, extra=facts)
        if not verdict.whole_scope:
            await sleep(verdict.delay)


def _may_be_size(failure: Failure) -> bool:
    """Return whether a smaller page might not have failed."""
    is_broken = failure.status is not None and failure.status >= 500 and failure.status not in LIMITS
    return is_broken or failure.status == 200 or failure.code in {"timeout", "connection_reset"}


def _exponential(first: float, attempt: int) -> float:
    # The exponent is limited, because the number of attempts at a rate limit is not.
    return min(_CAP, first * 2.0 ** min(attempt - 1, 64))
