"""Fetches one page with retries, until success, a permanent failure, or a wait longer than this run allows."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from connectors.source.errors import ApiError, Deferred, Disposition, Failure
from connectors.source.rate_limit import RateLimitBudget
from models.clock import Clock

if TYPE_CHECKING:
    from connectors.source.endpoints import ApiRequest, Response

Send = Callable[["ApiRequest"], Awaitable["Response"]]
Slot = Callable[[], AbstractAsyncContextManager[object]]
Sleep = Callable[[float], Awaitable[None]]
OnWait = Callable[[str, datetime], Awaitable[None]]

_NOTHING: Mapping[str, object] = MappingProxyType({})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """The number of attempts and the delays between them; all times in seconds.

    There are `tries` attempts in all. A retry waits a random share of `first`, 2 x `first`, 4 x ..., at most `cap`. A
    cooldown is as long as the service requires, but at least `least_wait`; without Retry-After it increases from
    `least_wait` to `cap`. Its jitter only adds: up to `wait_jitter` of the wait, at most `most_jitter`.
    """

    tries: int = 6
    first: float = 0.5
    cap: float = 60.0
    least_wait: float = 1.0
    wait_jitter: float = 0.1
    most_jitter: float = 5.0


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry after `delay` seconds. With `whole_scope` the scope's other requests wait too."""

    delay: float
    whole_scope: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not retry: the error is final. The scope's other requests wait for `cooldown` seconds, if set."""

    cooldown: float | None = None


def decide(error: ApiError, attempt: int, policy: BackoffPolicy, random: Callable[[], float]) -> Retry | GiveUp:
    """Decide what follows the `attempt`-th failure (from 1) of this disposition; `random` returns 0 to 1.

    Waits for a rate limit do not count as tries; the scope's budget limits them.
    """
    if error.disposition is Disposition.WAIT:
        announced = error.retry_after
        wait = _exponential(policy.least_wait, attempt, policy.cap) if announced is None else announced
        return Retry(_with_jitter(wait, policy, random), whole_scope=True)
    if error.disposition is not Disposition.RETRY:
        return GiveUp()
    is_last = attempt >= policy.tries
    if error.retry_after is not None:
        wait = _with_jitter(error.retry_after, policy, random)
        return GiveUp(wait) if is_last else Retry(wait, whole_scope=True)
    return GiveUp() if is_last else Retry(random() * _exponential(policy.first, attempt, policy.cap), whole_scope=False)


async def fetch_with_retry(
    send: Send,
    request: "ApiRequest",
    budget: RateLimitBudget,
    *,
    policy: BackoffPolicy,
    clock: Clock,
    random: Callable[[], float],
    failures: Counter[Disposition],
    slot: Slot,
    sleep: Sleep,
    on_wait: OnWait,
    uses_try: Callable[[ApiError], bool] = lambda _: True,
    about: Mapping[str, object] = _NOTHING,
    host: str = "",
) -> "Response":
    """Request one page, with the waits and retries that the policy and the scope's budget allow.

    Every request is made inside `slot()`, every wait is a `sleep`. `failures` counts the failures of this page so far,
    by disposition, and is updated; an error for which `uses_try` is false is not counted. `on_wait` is awaited for
    each new cooldown before the wait for it begins, so that the cooldown can be stored and survives a kill. Log records
    name `host` and have the fields of `about`. The caller must not send concurrent requests of one scope.

    Raises the last ApiError when it gives up, and Deferred when the scope's wait exceeds its budget.
    """

    async def start_cooldown(seconds: float, cause: Failure) -> None:
        monotonic = clock.monotonic()
        budget.start_cooldown(seconds, monotonic, cause)
        await on_wait(budget.scope, budget.resume_after(clock.now(), monotonic))

    while True:
        await _await_cooldown(budget, clock, sleep)
        try:
            async with slot():
                return await send(request)
        except ApiError as error:
            last = error.failure
            failures[last.disposition] += uses_try(error)
            verdict = decide(error, failures[last.disposition], policy, random)
            if isinstance(verdict, GiveUp):
                if verdict.cooldown is not None:
                    await start_cooldown(verdict.cooldown, last)
                raise
        at = f" at {host}" if host else ""
        name = f" ({about['username']})" if about.get("username") else ""
        facts = {**about, **last.facts, "retry_in": round(verdict.delay, 1)}
        _log.info("%s%s%s: %s; retry in %.1f s", request.partition, name, at, last, verdict.delay, extra=facts)
        if verdict.whole_scope:
            await start_cooldown(verdict.delay, last)
        else:
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


def _exponential(first: float, attempt: int, cap: float) -> float:
    # The exponent is limited, because the number of attempts at a rate limit is not.
    return min(cap, first * 2.0 ** min(attempt - 1, 64))


def _with_jitter(wait: float, policy: BackoffPolicy, random: Callable[[], float]) -> float:
    # Otherwise Retry-After: 0 would use up all tries immediately.
    least = max(wait, policy.least_wait)
    return least + random() * min(least * policy.wait_jitter, policy.most_jitter)
