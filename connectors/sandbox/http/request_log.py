"""The request log: the last requests, and counts of all."""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple


class Entry(NamedTuple):
    """One answered request; ``time`` is its arrival in seconds of the server's clock."""

    operation: str | None
    account_id: str | None
    surface: str | None
    cursor: str | None
    limit: int
    status: int
    code: str | None
    time: float
    correlation_id: str


class RequestLog:
    """Keeps the last ``size`` requests (0: none) and counts all."""

    def __init__(self, size: int) -> None:
        self.entries: deque[Entry] = deque(maxlen=size)
        self.counts: Counter[tuple[str | None, int]] = Counter()
        self.keeps = size > 0

    def clear(self) -> None:
        """Remove all entries and counts."""
        self.entries.clear()
        self.counts.clear()

    def asked_again(self) -> list[tuple[Entry, int]]:
        """Return the logged requests that were answered with 200 more than once, each with its number."""
        answers = Counter(entry._replace(time=0.0, correlation_id="") for entry in self.entries if entry.status == 200)
        return [(entry, times) for entry, times in answers.items() if times > 1]

    def distinct(self) -> int:
        """Return how many distinct pages the logged requests have requested."""
        return len({(e.operation, e.account_id, e.surface, e.cursor, e.limit) for e in self.entries})
