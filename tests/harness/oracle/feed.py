"""The rules of docs/backfill.md: when a scan may stop, and what it covers."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

RUN = 20
LOOKBACK = timedelta(days=2)
EVERY = timedelta(days=8)
PINS = 3
_LEAST_PAGES = 3
_FUTURE = timedelta(days=1)

# An item as a page lists it: its id, and when it was published.
Listed = tuple[str | None, datetime | None]


@dataclass
class Feed:
    """A scan's way through a feed.

    `run` is the number of known, old posts at its end, counted with the earliest time at which the scan may have begun,
    `longest_run` with the latest.
    """

    received: int = 0
    run: int = 0
    longest_run: int = 0
    read_to: datetime | None = None
    broken_by: str | None = None
    seen: set[str] = field(default_factory=set)

    def resume(self, seen: Collection[str]) -> None:
        """Continue in another process, which knows the received posts."""
        self.seen = set(seen)
        if self.received > PINS and self.read_to is None and self.broken_by is None:
            self.broken_by = ""

    def read(
        self, items: Iterable[Listed], known: Collection[str], older: tuple[datetime, datetime], at: datetime
    ) -> None:
        """Read a page received `at`; `older` are the earliest and the latest start of the lookback window."""
        for media_id, published in items:
            self.received += 1
            again = media_id is not None and media_id in self.seen
            if media_id is not None:
                self.seen.add(media_id)
            if self.received <= PINS or again:
                continue
            late = published is not None and self.read_to is not None and published > self.read_to
            if published is None or late or published > at + _FUTURE:
                self.broken_by = self.broken_by if self.broken_by is not None else media_id or ""
                self.run = self.longest_run = 0
                continue
            self.read_to = published
            self.run = self.run + 1 if media_id in known and published < older[0] else 0
            self.longest_run = self.longest_run + 1 if media_id in known and published < older[1] else 0

    def may_stop(self) -> bool:
        """Return whether a recent scan may stop here."""
        return self.broken_by is None and self.longest_run >= RUN

    def must_stop(self) -> bool:
        """Return whether a recent scan must stop here, to send no needless requests."""
        return self.broken_by is None and self.run >= RUN


@dataclass(frozen=True)
class Closed:
    """The closed scans of a partition: the last full scan, and the last recent scan since."""

    complete_at: datetime
    pages: int
    items: int
    share: float
    proofs: int = 1
    is_ordered: bool = False
    broken_by: str | None = None
    recent_at: datetime | None = None
    covered_from: datetime | None = None

    def why_full(self, mode: str, now: datetime) -> str | None:
        """Return why the next scan must be full; None if it may be recent."""
        if mode != "incremental":
            return "full_refresh"
        if not self.is_ordered or self.pages < _LEAST_PAGES:
            return "order_not_proved"
        return "full_due" if now >= self.complete_at + EVERY * self.share else None


def completed(before: Closed | None, feed: Feed, *, pages: int, at: datetime, share: float, is_posts: bool) -> Closed:
    """Return the state after a full scan; after a broken order, two full scans must prove the order again."""
    proofs = before.proofs if before else 1
    if is_posts and feed.broken_by is not None:
        proofs = 2
    elif is_posts and feed.read_to is not None:
        proofs = max(proofs - 1, 0)
    is_ordered = proofs == 0 and feed.read_to is not None and feed.broken_by is None
    return Closed(at, pages, feed.received, share, proofs, is_ordered, feed.broken_by)
