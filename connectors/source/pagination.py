"""Detects scans without an end: cursors that repeat, and pages without new items (API 8)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from xxhash import xxh3_64_intdigest, xxh3_128_digest

from connectors.source.responses import Response

# Limits of consecutive pages without new items: pages of items seen before, and empty pages.
MOST_REPEATED = 10
MOST_EMPTY = 1_000

# At least this many hashes of items are remembered, and at most twice as many.
_REMEMBERED = 50_000


@dataclass(slots=True)
class Memory:
    """Remembers the last 50,000 to 100,000 texts, as hashes in two sets, which limits the memory."""

    recent: set[int] = field(default_factory=set)
    older: set[int] = field(default_factory=set)

    def remember(self, texts: Iterable[str]) -> bool:
        """Remember texts; return whether any of them is new."""
        # Not `hash`, which differs between processes.
        hashes = {xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")) for text in texts}
        is_new = bool(hashes - self.recent - self.older)
        self.recent |= hashes
        if len(self.recent) >= _REMEMBERED:
            self.older, self.recent = self.recent, set()
        return is_new


@dataclass(slots=True)
class LoopGuard(Memory):
    """What one scan remembers of its pages, and their items. It can continue in another process.

    `cursors` are the digests of those that the scan has followed. `repeated` and `empty` count the pages since the last
    one with a new item: those with only items seen before, and those without items. A listing that repeats itself
    within 1,000 full pages is detected.
    """

    cursors: set[bytes] = field(default_factory=set)
    repeated: int = 0
    empty: int = 0

    @classmethod
    def after(cls, cursor: str | None, repeated: int = 0, empty: int = 0) -> "LoopGuard":
        """Return the guard of a scan that continues at this cursor, after this many pages without new items."""
        return cls(cursors=set() if cursor is None else {_digest(cursor)}, repeated=repeated, empty=empty)

    def follow(self, response: Response, identities: Iterable[str]) -> None:
        """Count a page, whose items have these identities.

        Raises ApiError `cursor_loop` if its next cursor occurred before, and `cursor_no_progress` if too many
        consecutive pages had no new items and more follow. Such a page must land without a checkpoint: otherwise the
        scan would continue at its cursor and never end.
        """
        cursor = response.page.next_cursor
        digest = None if cursor is None else _digest(cursor)
        if digest in self.cursors:
            why = f"the API returned a cursor again after {len(self.cursors)} cursors: the scan would never end"
            raise response.error("cursor_loop", why)
        if self.remember(identities):
            self.repeated = self.empty = 0
        elif response.page.records:
            self.repeated += 1
        else:
            self.empty += 1
        if digest is None:
            return
        self.cursors.add(digest)
        if self.repeated >= MOST_REPEATED or self.empty >= MOST_EMPTY:
            seen, empty = f"{self.repeated} pages of items already seen in this scan", f"{self.empty} empty ones"
            raise response.error("cursor_no_progress", f"{seen} and {empty} came in a row: the listing does not end")


def _digest(cursor: str) -> bytes:
    # A cursor may be a kilobyte.
    return xxh3_128_digest(cursor.encode())
