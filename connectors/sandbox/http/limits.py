"""The rate limiter, and the record of requests that were sent before a cooldown was over (API 8)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from connectors.sandbox.settings import RateLimit

_MANY = 50_000
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class TenantScope:
    """The scope of a limit: ``account_catalog`` for a key, or ``selected_account`` for a key and an account."""

    kind: str
    key: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class EarlyRequest:
    """A request before the end of its scope's cooldown; times are seconds of the server's clock."""

    kind: str
    account_id: str | None
    arrived: float
    allowed_from: float
    correlation_id: str


class RateLimiter:
    """Counts requests in windows that begin with a tenant scope's first request.

    ``limits`` maps the kind of scope to its limit; there is no limit if it is missing or None.
    """

    def __init__(self, limits: dict[str, RateLimit | None], clock: Callable[[], float]) -> None:
        self.limits = limits
        self.early: deque[EarlyRequest] = deque(maxlen=_REMEMBERED)
        self.early_total = 0
        self._clock = clock
        self._windows: dict[TenantScope, tuple[float, int]] = {}
        self._announced: dict[TenantScope, float] = {}

    def note_early(self, scope: TenantScope, account_id: str | None, correlation_id: str) -> None:
        """Record the request if it arrives before the end of its scope's cooldown."""
        until = self._announced.get(scope)
        if until is None:
            return
        now = self._clock()
        if now >= until:
            del self._announced[scope]
            return
        self.early_total += 1
        self.early.append(EarlyRequest(scope.kind, account_id, now, until, correlation_id))

    def admit(self, scope: TenantScope) -> int | None:
        """Count a request; return None if it is allowed, otherwise the seconds to wait, rounded up."""
        limit = self.limits.get(scope.kind)
        if limit is None:
            return None
        now = self._clock()
        ends, count = self._windows.get(scope, (0.0, 0))
        if count == 0 or now >= ends:
            self._forget(now)
            ends, count = now + limit.seconds, 0
        if count >= limit.requests:
            wait = max(1, ceil(ends - now))
            self.announce(scope, wait)
            return wait
        self._windows[scope] = (ends, count + 1)
        return None

    def announce(self, scope: TenantScope, seconds: int) -> None:
        """Record that a scope was sent a Retry-After of `seconds` from now."""
        until = self._clock() + seconds
        self._announced[scope] = max(until, self._announced.get(scope, until))

    def configure(self, limits: dict[str, RateLimit | None]) -> None:
        """Change the given limits and reset all windows, but not the cooldowns."""
        self.limits = {**self.limits, **limits}
        self._windows.clear()

    def forget_early(self) -> None:
        """Clear the record of early requests, but not the cooldowns."""
        self.early.clear()
        self.early_total = 0

    def _forget(self, now: float) -> None:
        if len(self._windows) > _MANY:
            self._windows = {scope: w for scope, w in self._windows.items() if w[0] > now}
        if len(self._announced) > _MANY:
            self._announced = {scope: until for scope, until in self._announced.items() if until > now}
