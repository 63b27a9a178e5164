"""What was asked and answered: the last requests one by one, and all of them counted."""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple


class Entry(NamedTuple):
    """One answered request; ``time`` is in seconds of the server's clock, at arrival."""

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
    """Remembers the last ``size`` requests (0: none) and counts every one."""

    def __init__(self, size: int) -> None:
        self.entries: deque[Entry] = deque(maxlen=size)
        self.counts: Counter[tuple[str | None, int]] = Counter()
        self.keeps = size > 0

    def clear(self) -> None:
        """Forget everything, the counts too."""
        self.entries.clear()
        self.counts.clear()

    def asked_again(self) -> list[tuple[Entry, int]]:
        """Return the remembered requests answered 200 more than once, with how often."""
        answers = Counter(entry._replace(time=0.0, correlation_id="") for entry in self.entries if entry.status == 200)
        return [(entry, times) for entry, times in answers.items() if times > 1]

    def distinct(self) -> int:
        """Return how many different pages the remembered requests asked for."""
        return len({(e.operation, e.account_id, e.surface, e.cursor, e.limit) for e in self.entries})
