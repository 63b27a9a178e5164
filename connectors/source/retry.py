"""One page, asked for until it comes, is given up, or must wait longer than this run may."""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from types import MappingProxyType

from connectors.source.backoff import BackoffPolicy, GiveUp, decide
from connectors.source.endpoints import ApiRequest, Response
from connectors.source.errors import ApiError, Deferred, Disposition, Failure
from connectors.source.rate_limit import RateLimitBudget
from models.clock import Clock

Send = Callable[[ApiRequest], Awaitable[Response]]
Park = Callable[[], AbstractAsyncContextManager[object]]
OnWait = Callable[[str, datetime, Failure], Awaitable[None]]

_NOTHING: Mapping[str, object] = MappingProxyType({})

_log = logging.getLogger(__name__)


async def fetch_with_retry(
    send: Send,
    request: ApiRequest,
    budget: RateLimitBudget,
    *,
    policy: BackoffPolicy,
    clock: Clock,
    random: Callable[[], float],
    park: Park,
    on_wait: OnWait,
    about: Mapping[str, object] = _NOTHING,
    host: str = "",
) -> Response:
    """Ask for one page, through every wait and retry that the policy and the scope's budget allow.

    Every sleep happens inside `park()`, which gives the caller's place among the concurrent ones back.
    `on_wait` is awaited before the first second of a new cooldown, so that a killed process keeps
    it. The log names `host`, and has the facts of `about`. The caller never has more than one request
    in flight per scope.

    Raises the last ApiError when it gives up, and Deferred when the scope's wait exceeds its budget.
    """
    failures: Counter[Disposition] = Counter()
    last: Failure | None = None
    while True:
        await _await_cooldown(budget, last, clock, park)
        try:
            return await send(request)
        except ApiError as error:
            last = error.failure
            failures[last.disposition] += 1
            verdict = decide(error, failures[last.disposition], policy, random)
            if isinstance(verdict, GiveUp):
                raise
        at = f" at {host}" if host else ""
        name = f" ({about['username']})" if about.get("username") else ""
        facts = {**about, **last.facts, "retry_in": round(verdict.delay, 1)}
        _log.info("%s%s%s: %s; retry in %.1f s", request.partition, name, at, last, verdict.delay, extra=facts)
        if verdict.whole_scope:
            monotonic = clock.monotonic()
            budget.start_cooldown(verdict.delay, monotonic)
            await on_wait(budget.scope, budget.resume_after(clock.now(), monotonic), last)
        else:
            async with park():
                await clock.sleep(verdict.delay)


async def _await_cooldown(budget: RateLimitBudget, cause: Failure | None, clock: Clock, park: Park) -> None:
    # A loop, because a sleep may end early and a wait may not.
    while due := budget.due(clock.monotonic()):
        if not budget.affords(due):
            resume_after = budget.resume_after(clock.now(), clock.monotonic())
            raise Deferred(budget.scope, resume_after, cause)
        began = clock.monotonic()
        async with park():
            await clock.sleep(due)
        budget.spend(clock.monotonic() - began)
