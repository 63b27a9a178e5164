"""The rate limiter (API 8)."""

from collections.abc import Callable, Mapping
from math import ceil

from connectors.sandbox.settings import RateLimit


class RateLimiter:
    """Counts requests in windows that begin with a tenant scope's first request.

    ``limits`` maps the kind of scope to its limit; None: no limit. Scopes of the kind ``account_catalog`` belong to a
    key, those of the kind ``selected_account`` to a key and an account.
    """

    def __init__(self, limits: Mapping[str, RateLimit | None], clock: Callable[[], float]) -> None:
        self.limits = dict(limits)
        self._clock = clock
        self._windows: dict[tuple[str, str, int], tuple[float, int]] = {}

    def admit(self, kind: str, key: str, position: int) -> int | None:
        """Count a request; return None if it is allowed, otherwise the seconds to wait, rounded up."""
        limit, scope = self.limits[kind], (kind, key, position)
        if limit is None:
            return None
        now = self._clock()
        ends, count = self._windows.get(scope, (now, 0))
        if now >= ends:
            ends, count = now + limit.seconds, 0
        if count >= limit.requests:
            return max(1, ceil(ends - now))
        self._windows[scope] = (ends, count + 1)
        return None

    def configure(self, limits: Mapping[str, RateLimit | None]) -> None:
        """Change the given limits and reset all windows."""
        self.limits |= limits
        self._windows.clear()
