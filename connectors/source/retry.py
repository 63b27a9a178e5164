"""Fetches one page with retries, until success, a permanent failure, or a wait longer than this run allows."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from connectors.source.errors import ApiError, Deferred, Disposition
from connectors.source.rate_limit import RateLimitBudget
from models.clock import Clock

if TYPE_CHECKING:
    from connectors.source.endpoints import ApiRequest, Response

Send = Callable[["ApiRequest"], Awaitable["Response"]]
Slot = Callable[[], AbstractAsyncContextManager[object]]
Sleep = Callable[[float], Awaitable[None]]
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows a failure: a retry after `delay` seconds, or without `retries` the error is final.

    With `whole_scope` the scope's other requests wait for `delay` seconds, too.
    """

    retries: bool
    delay: float = 0.0
    whole_scope: bool = False


def decide(error: ApiError, attempt: int, random: Callable[[], float], tries: int = TRIES) -> Verdict:
    """Decide what follows the `attempt`-th failure (from 1) of this disposition; `random` returns 0 to 1.

    Waits for a rate limit do not count as tries; the scope's budget limits them.
    """
    waits, wait = error.failure.disposition is Disposition.WAIT, error.retry_after
    if not waits and error.failure.disposition is not Disposition.RETRY:
        return Verdict(retries=False)
    retries = waits or attempt < tries
    if waits and wait is None:
        wait = _exponential(_LEAST_WAIT, attempt)
    if wait is not None:
        # Otherwise Retry-After: 0 would use up all tries immediately.
        least = max(wait, _LEAST_WAIT)
        return Verdict(retries, least + random() * min(least * _WAIT_JITTER, _MOST_JITTER), whole_scope=True)
    return Verdict(retries, random() * _exponential(_FIRST, attempt) if retries else 0.0)


async def fetch_with_retry(
    send: Send,
    request: "ApiRequest",
    budget: RateLimitBudget,
    *,
    clock: Clock,
    random: Callable[[], float],
    failures: Counter[Disposition],
    slot: Slot,
    sleep: Sleep,
    on_wait: OnWait,
    uses_try: Callable[[ApiError], bool],
    about: Mapping[str, object],
    host: str,
    tries: int = TRIES,
) -> "Response":
    """Request one page, with the waits and retries that `tries` and the scope's budget allow.

    Every request is made inside `slot()`, every wait is a `sleep`. `failures` counts the failures of this page so far,
    by disposition, and is updated; an error for which `uses_try` is false is not counted. `on_wait` is awaited for
    each new cooldown before the wait for it begins, so that the cooldown can be stored and survives a kill. Log records
    name `host` and have the fields of `about`. The caller must not send concurrent requests of one scope.

    Raises the last ApiError when it gives up, and Deferred when the scope's wait exceeds its budget.
    """
    while True:
        await _await_cooldown(budget, clock, sleep)
        try:
            async with slot():
                return await send(request)
        except ApiError as error:
            last = error.failure
            failures[last.disposition] += uses_try(error)
            verdict = decide(error, failures[last.disposition], random, tries)
            if verdict.whole_scope:
                monotonic = clock.monotonic()
                budget.start_cooldown(verdict.delay, monotonic, last)
                await on_wait(budget.scope, budget.resume_after(clock.now(), monotonic))
            if not verdict.retries:
                raise
        at = f" at {host}" if host else ""
        name = f" ({about['username']})" if about.get("username") else ""
        facts = {**about, **last.facts, "retry_in": round(verdict.delay, 1)}
        _log.info("%s%s%s: %s; retry in %.1f s", request.partition, name, at, last, verdict.delay, extra=facts)
        if not verdict.whole_scope:
            await sleep(verdict.delay)


async def _await_cooldown(budget: RateLimitBudget, clock: Clock, sleep: Sleep) -> None:
    # A loop, because a sleep may end early, and no request may be sent before the cooldown is over.
    while due := budget.due(clock.monotonic()):
        if not budget.affords(due):
            resume_after = budget.resume_after(clock.now(), clock.monotonic())
            raise Deferred(budget.scope, resume_after, budget.cause)
        began = clock.monotonic()
        await sleep(due)
        budget.spend(clock.monotonic() - began)


def _exponential(first: float, attempt: int) -> float:
    # The exponent is limited, because the number of attempts at a rate limit is not.
    return min(_CAP, first * 2.0 ** min(attempt - 1, 64))
