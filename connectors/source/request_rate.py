"""Decides how many requests per second a run sends when the service, or a gateway before it, limits the whole key.

API 4 only has limits of one account or the catalogue; other limits are found out from what is refused: the rate rises
by a little with each page, and falls to a part of what was served when a request is refused.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Self

# Limits of several scopes within these seconds may be limits of the key.
_MOMENT = 1.0
# Without limits, or without pages, for these seconds, the run keeps no rate. Longer than limits per minute.
_EXPIRY = 90.0
# The longest time between two requests while all are refused.
_SLOWEST = 5.0
# The rate is found again after these seconds and pages at the earliest, so that it is measured over enough of them.
_SETTLED = 0.5
_ENOUGH = 5
# How fast the rate rises, in doublings per second: at first, and at least. Each time it is found, it rises slower.
_FAST = 4.0
_SLOW = 1 / 16
_SLOWER = 4.0
# The run sends this part of what was served: while the rate rises to it again, the service can make up for a burst.
# If more than a twentieth was refused, the rate falls to 0.7: what is measured after pauses is too much.
_MARGIN = 0.95
_MANY = 0.05
_FALL = 0.7
# A gap between two answers counts as this many intervals of the rate at most; in the rest nothing was to be sent.
_LONGEST_GAP = 4.0
# If more than a quarter is refused five times in a row, the rate is not the reason.
_USELESS = 0.25
_MOST_USELESS = 5


@dataclass(frozen=True, slots=True)
class RequestRate:
    """The requests per second that a run sends, and what it has observed. Times are monotonic seconds.

    `fixed` is the rate of a setting. `allowed` is the rate at which the service served when it was last found, `base`
    the rate now, and `slope` how fast it rises. `pages` and `refused` count since it was found, `busy` are the seconds
    in which requests were sent. `recent` are the times of the last second's pages. `limited_after` are the pages after
    which the last two limits came. `useless` counts how often in a row a lower rate did not help.
    """

    fixed: float | None = None
    allowed: float | None = None
    base: float | None = None
    slope: float = _FAST
    found_at: float = -math.inf
    pages: int = 0
    refused: int = 0
    busy: float = 0.0
    useless: int = 0
    resting_until: float = -math.inf
    answered_at: float = -math.inf
    served_at: float = -math.inf
    limited_at: float = -math.inf
    limited_scope: str = ""
    limited_after: tuple[int, int] = (0, 0)
    recent: tuple[float, ...] = ()

    def per_second(self, now: float) -> float | None:
        """Return the requests per second to send, or None: as many as there are."""
        if self.fixed is not None or self.base is None or not self.is_limited(now):
            return self.fixed
        refused_for = min(self.answered_at - self.served_at, _SLOWEST)
        return min(self.base, 1 / refused_for) if refused_for > 0 else self.base

    def is_limited(self, now: float) -> bool:
        """Return whether the service limits all requests, and serves some of them."""
        return self.base is not None and now - min(self.limited_at, self.served_at) <= _EXPIRY

    def observe(self, scope: str, *, limited: bool, now: float, pages: int = 0) -> Self:
        """Return the rate after an answer to a request of a rate-limit scope: a limit, or not.

        `pages` are those that the scope has received since its last limit.
        """
        recent = self.recent[bisect_left(self.recent, now - _MOMENT) :]
        was_limited = self.is_limited(now)
        # Times of several processes may be out of order.
        gap = max(0.0, min(now - self.answered_at, _LONGEST_GAP / (self.base or 1))) if was_limited else 0.0
        seen = replace(self, answered_at=now, busy=self.busy + gap, recent=recent)
        if not limited:
            # It rises with each page and not with time, so that it stays where it is while nothing is sent.
            base = None if self.base is None else self.base + math.log(2) * self.slope
            return replace(seen, served_at=now, base=base, pages=self.pages + 1, recent=(*recent, now))
        seen = replace(seen, limited_after=(self.limited_after[-1], pages))
        # Limits of single accounts come after equal numbers of pages, with exceptions.
        is_equal = self.base is None and pages > 0 and pages in self.limited_after
        if scope == self.limited_scope or is_equal:
            return seen
        seen = replace(seen, limited_at=now, limited_scope=scope, refused=self.refused + 1)
        if was_limited:
            return seen.lowered(now)
        is_serving = now - self.served_at <= _EXPIRY and now >= self.resting_until
        if now - self.limited_at <= _MOMENT and is_serving:
            return seen.found(max(1.0, len(recent) / _MOMENT), now)
        return seen

    def lowered(self, now: float) -> Self:
        """Return the rate after one more limit."""
        if self.base is None or now - self.found_at < _SETTLED or self.pages < _ENOUGH or not self.busy:
            return self
        share = self.refused / (self.refused + self.pages)
        useless = self.useless + 1 if share > _USELESS and self.fixed is None else 0
        if useless >= _MOST_USELESS:
            return replace(self, base=None, allowed=None, resting_until=now + _EXPIRY)
        allowed = self.pages / self.busy
        base = min(self.base * (_FALL if share > _MANY else 1), _MARGIN * allowed)
        slope = max(self.slope / _SLOWER, _SLOW)
        return replace(self.found(base, now), slope=slope, allowed=allowed, useless=useless)

    def found(self, base: float, now: float) -> Self:
        """Return the rate that begins at `base`."""
        return replace(self, base=base, slope=_FAST, found_at=now, pages=0, refused=0, busy=0.0, useless=0)
