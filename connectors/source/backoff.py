"""When to ask again after a failure: a decision without IO, clock or dice of its own."""

from collections.abc import Callable
from dataclasses import dataclass

from connectors.source.errors import ApiError, Disposition


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """How patient to be; all times in seconds.

    A retry waits a random share of `first`, 2 x `first`, 4 x ..., `cap`, and there are `tries` attempts
    in all. A wait is what the service announced, at least `least_wait`, or else grows from it to `cap`;
    its jitter only adds: up to `wait_jitter` of the wait and at most `most_jitter`.
    """

    tries: int = 6
    first: float = 0.5
    cap: float = 60.0
    least_wait: float = 1.0
    wait_jitter: float = 0.1
    most_jitter: float = 5.0


@dataclass(frozen=True, slots=True)
class Retry:
    """Ask again after `delay` seconds; with `whole_scope` nobody else may ask in that scope either."""

    delay: float
    whole_scope: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Ask no more: the error is final."""


def decide(error: ApiError, attempt: int, policy: BackoffPolicy, random: Callable[[], float]) -> Retry | GiveUp:
    """Decide what follows the `attempt`-th failure (from 1) of this disposition; `random` gives 0 to 1.

    Waits are not counted against the tries: what bounds them is the scope's budget.
    """
    if error.disposition is Disposition.WAIT:
        announced = error.retry_after
        wait = _growing(policy.least_wait, attempt, policy.cap) if announced is None else announced
        return Retry(_upward(wait, policy, random), whole_scope=True)
    if error.disposition is not Disposition.RETRY or attempt >= policy.tries:
        return GiveUp()
    if error.retry_after is not None:
        return Retry(_upward(error.retry_after, policy, random), whole_scope=True)
    return Retry(random() * _growing(policy.first, attempt, policy.cap), whole_scope=False)


def _growing(first: float, attempt: int, cap: float) -> float:
    # The exponent is bounded because a rate limit may be met any number of times.
    return min(cap, first * 2.0 ** min(attempt - 1, 64))


def _upward(wait: float, policy: BackoffPolicy, random: Callable[[], float]) -> float:
    # Retry-After: 0 would otherwise spend every try at once.
    least = max(wait, policy.least_wait)
    return least + random() * min(least * policy.wait_jitter, policy.most_jitter)
