"""Follows cursors from page to page of a scan; detects loops and pages without progress (API 8)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from connectors.source.endpoints import Response
from connectors.source.errors import client_error


class CursorTrail:
    """The cursors one scan has followed, as 16-byte digests: a cursor may be a kilobyte, a scan long."""

    def __init__(self, start: str | None) -> None:
        self._seen: set[bytes] = set()
        if start is not None:
            self._seen.add(_digest(start))

    def follow(self, response: Response) -> str | None:
        """Return the page's next cursor; raises ApiError `cursor_loop` when the scan has had it before."""
        cursor = response.page.next_cursor
        if cursor is None:
            return None
        digest = _digest(cursor)
        if digest in self._seen:
            raise client_error(
                response.operation,
                "cursor_loop",
                f"the API returned a cursor again after {len(self._seen)} cursors: the scan would never end",
                correlation_id=response.correlation_id,
            )
        self._seen.add(digest)
        return cursor


# So many pages in a row may bring nothing new: with items that the scan has seen, and without any item.
MOST_REPEATED = 10
MOST_EMPTY = 1_000

# As many hashes of ids as are remembered at least, and half of what is remembered at most.
_REMEMBERED = 50_000


@dataclass(slots=True)
class Progress:
    """Whether a scan gets anywhere: how many pages in a row, up to the last one, brought nothing new.

    `repeated` counts pages whose items the scan has all seen, `empty` those without an item; an item that is new sets
    both back to 0. What is remembered is a hash of each item's identity, of the last 50,000 to 100,000: a scan's
    memory stays bounded, and so a listing is found out that repeats itself within 1,000 full pages.
    """

    identify: Callable[[Response], Iterable[str]]
    trail: CursorTrail
    repeated: int = 0
    empty: int = 0
    _recent: set[int] = field(default_factory=set)
    _older: set[int] = field(default_factory=set)

    def remember(self, identities: Iterable[str]) -> bool:
        """Remember items; say whether one of them was new."""
        hashes = set(map(hash, identities))
        is_new = bool(hashes - self._recent - self._older)
        self._recent |= hashes
        if len(self._recent) >= _REMEMBERED:
            self._older, self._recent = self._recent, set()
        return is_new

    def follow(self, response: Response) -> str | None:
        """Take note of a page, and return the cursor of the next; None only after the last (API 8, rule 3).

        Raises ApiError `cursor_loop`, and `cursor_no_progress` when too many pages brought nothing and more follow.
        Such a page must not land: it would become the checkpoint of a scan without an end.
        """
        cursor = self.trail.follow(response)
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


def _digest(cursor: str) -> bytes:
    return blake2b(cursor.encode(), digest_size=16).digest()
