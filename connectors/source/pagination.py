"""Follows the cursors of a scan from page to page, and detects loops and missing progress (API 8)."""

from collections.abc import Callable, Iterable
from dataclasses import InitVar, dataclass, field
from hashlib import blake2b

from connectors.source.endpoints import Response
from connectors.source.errors import client_error

# Limits of consecutive pages without new items: pages of items seen before, and empty pages.
MOST_REPEATED = 10
MOST_EMPTY = 1_000

# At least this many hashes of ids are remembered, and at most twice as many.
_REMEMBERED = 50_000


@dataclass(slots=True)
class Progress:
    """Counts a scan's most recent consecutive pages without new items.

    `repeated` counts pages with only items seen before, `empty` pages without items; a new item resets both to 0.
    Hashes of the identities of the last 50,000 to 100,000 items are remembered. That limits the memory, and detects a
    listing that repeats itself within 1,000 full pages. `start` is the cursor of the scan's first request.
    """

    identify: Callable[[Response], Iterable[str]]
    start: InitVar[str | None]
    repeated: int = 0
    empty: int = 0
    _cursors: set[bytes] = field(default_factory=set)
    _recent: set[int] = field(default_factory=set)
    _older: set[int] = field(default_factory=set)

    def __post_init__(self, start: str | None) -> None:
        if start is not None:
            self._cursors.add(_digest(start))

    def remember(self, identities: Iterable[str]) -> bool:
        """Remember items; return whether any of them is new."""
        hashes = set(map(hash, identities))
        is_new = bool(hashes - self._recent - self._older)
        self._recent |= hashes
        if len(self._recent) >= _REMEMBERED:
            self._older, self._recent = self._recent, set()
        return is_new

    def follow(self, response: Response) -> str | None:
        """Count a page and return the cursor of the next one; None only after the last page (API 8, rule 3).

        Raises ApiError `cursor_loop`, or `cursor_no_progress` when too many consecutive pages had no new items and
        more follow. Such a page must not land: the scan would continue at its cursor and never end.
        """
        cursor = self._next(response)
        if self.remember(self.identify(response)):
            self.repeated = self.empty = 0
        elif response.page.items:
            self.repeated += 1
        else:
            self.empty += 1
        if cursor is None or (self.repeated < MOST_REPEATED and self.empty < MOST_EMPTY):
            return cursor
        raise client_error(
            response.operation,
            "cursor_no_progress",
            f"{self.repeated} pages of items already seen in this scan and {self.empty} empty ones came in a row:"
            " the listing does not end",
            correlation_id=response.correlation_id,
        )

    def _next(self, response: Response) -> str | None:
        cursor = response.page.next_cursor
        if cursor is None:
            return None
        digest = _digest(cursor)
        if digest in self._cursors:
            raise client_error(
                response.operation,
                "cursor_loop",
                f"the API returned a cursor again after {len(self._cursors)} cursors: the scan would never end",
                correlation_id=response.correlation_id,
            )
        self._cursors.add(digest)
        return cursor


def _digest(cursor: str) -> bytes:
    # A cursor may be a kilobyte.
    return blake2b(cursor.encode(), digest_size=16).digest()
