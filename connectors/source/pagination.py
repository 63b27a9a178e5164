"""Detects scans without an end: cursors that repeat, and pages without new items (API 8)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from xxhash import xxh3_64_intdigest

from connectors.source.endpoints import Response
from connectors.source.errors import client_error

# Limits of consecutive pages without new items: pages of items seen before, and empty pages.
MOST_REPEATED = 10
MOST_EMPTY = 1_000

# At least this many hashes of items are remembered, and at most twice as many.
_REMEMBERED = 50_000


@dataclass(slots=True)
class LoopGuard:
    """What one scan remembers of its pages. It can continue in another process.

    `cursors` are the digests of those that the scan has followed. `repeated` and `empty` count the pages since the last
    one with a new item: those with only items seen before, and those without items. `recent` and `older` are hashes of
    the last 50,000 to 100,000 items. That limits the memory, and detects a listing that repeats itself within 1,000
    full pages.
    """

    cursors: set[bytes] = field(default_factory=set)
    repeated: int = 0
    empty: int = 0
    recent: set[int] = field(default_factory=set)
    older: set[int] = field(default_factory=set)

    @classmethod
    def after(cls, cursor: str | None, repeated: int = 0, empty: int = 0) -> "LoopGuard":
        """Return the guard of a scan that continues at this cursor, after this many pages without new items."""
        return cls(set() if cursor is None else {_digest(cursor)}, repeated, empty)

    def remember(self, identities: Iterable[str]) -> bool:
        """Remember items; return whether any of them is new."""
        # Not `hash`, which differs between processes.
        hashes = {xxh3_64_intdigest(identity.encode("utf-8", "surrogatepass")) for identity in identities}
        is_new = bool(hashes - self.recent - self.older)
        self.recent |= hashes
        if len(self.recent) >= _REMEMBERED:
            self.older, self.recent = self.recent, set()
        return is_new

    def follow(self, response: Response, identities: Iterable[str]) -> None:
        """Count a page, whose items have these identities.

        Raises ApiError `cursor_loop` if its next cursor occurred before, and `cursor_no_progress` if too many
        consecutive pages had no new items and more follow. Such a page must land without a checkpoint: otherwise the
        scan would continue at its cursor and never end.
        """
        cursor = response.page.next_cursor
        if cursor is not None:
            self._add(cursor, response)
        if self.remember(identities):
            self.repeated = self.empty = 0
        elif response.page.items:
            self.repeated += 1
        else:
            self.empty += 1
        if cursor is None or (self.repeated < MOST_REPEATED and self.empty < MOST_EMPTY):
            return
        raise client_error(
            response.operation,
            "cursor_no_progress",
            f"{self.repeated} pages of items already seen in this scan and {self.empty} empty ones came in a row:"
            " the listing does not end",
            correlation_id=response.correlation_id,
        )

    def _add(self, cursor: str, response: Response) -> None:
        digest = _digest(cursor)
        if digest in self.cursors:
            raise client_error(
                response.operation,
                "cursor_loop",
                f"the API returned a cursor again after {len(self.cursors)} cursors: the scan would never end",
                correlation_id=response.correlation_id,
            )
        self.cursors.add(digest)


def _digest(cursor: str) -> bytes:
    # A cursor may be a kilobyte.
    return blake2b(cursor.encode(), digest_size=16).digest()
