"""The rules of docs/decisions/incremental-scans.md in plain Python: when a scan may stop, which removals it decides."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import md5
from typing import Literal, NamedTuple

# Smaller than gramhouse's defaults, because the feeds of tests are small.
RUN = 4
LOOKBACK = timedelta(days=2)
EVERY = timedelta(days=8)

PINS = 3
_LEAST_PAGES = 3
_FUTURE = timedelta(days=1)

# An item as a page lists it: its id, and when it was published.
Listed = tuple[str | None, datetime | None]
Key = tuple[str, str, str]
Why = Literal["full_refresh", "first_scan", "order_not_proved", "removals_pending", "few_pages", "full_due"]


def spread(account_id: str) -> float:
    """Return the share of the interval after which an account's next full scan is due, spread over accounts."""
    return (1 + int(md5(account_id.encode(), usedforsecurity=False).hexdigest()[:8], 16)) / 2**32


@dataclass
class Feed:
    """The state of a scan of a feed. `run` is the number of known, old posts at its end.

    The scan's start is known only as an interval: `run` is counted with its earliest time, `longest_run` with its
    latest.
    """

    received: int = 0
    run: int = 0
    longest_run: int = 0
    read_to: datetime | None = None
    broken_by: str | None = None
    pins: set[str] = field(default_factory=set)
    page: set[str] = field(default_factory=set)

    def copy(self) -> "Feed":
        """Return a copy that can be read further."""
        return replace(self, pins=set(self.pins), page=set(self.page))

    def resume(self, seen: Collection[str]) -> None:
        """Continue in another process, which knows the received posts but not their pages."""
        self.pins, self.page = set(), set(seen)
        if self.received > PINS and self.read_to is None and self.broken_by is None:
            self.broken_by = ""

    def read(
        self, items: Iterable[Listed], known: Collection[str], older: tuple[datetime, datetime], at: datetime
    ) -> None:
        """Read a page received `at`; `older` are the earliest and the latest start of the lookback window."""
        page = set[str]()
        for media_id, published in items:
            self.received += 1
            again = media_id is not None and media_id in self.pins | page | self.page
            if media_id is not None:
                (self.pins if self.received <= PINS else page).add(media_id)
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
        self.page = page or self.page

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

    def last_saw(self, published: datetime | None) -> datetime:
        """Return when a scan last covered posts that were published then."""
        if self.recent_at is None or not is_covered(published, self.covered_from):
            return self.complete_at
        return max(self.complete_at, self.recent_at)


def is_covered(published: datetime | None, covered_from: datetime | None) -> bool:
    """Return whether a recent scan down to `covered_from` covers posts that were published then."""
    return published is not None and covered_from is not None and published > covered_from


class Missing(NamedTuple):
    """An item that a closed scan missed: since when (None if the scan rejected records), and when it was last seen."""

    since: datetime | None
    last_seen: datetime
    needs_full: bool


@dataclass(frozen=True)
class RemovalCheck:
    """Decides which of the items missed by a closed scan are removed; `known` is how many it should have seen.

    Expired stories (`old`) are always removed. A scan that rejected a record decides nothing. A recent scan removes
    items that another scan missed before. If most items are missing, none is removed until a full scan that began an
    hour later misses them, too.
    """

    started: datetime
    at: datetime
    recent: bool
    rejects: bool
    known: int
    old: Collection[Key]

    def removed(self, missed: Mapping[Key, Missing]) -> dict[Key, datetime]:
        """Return the removed items, and since when."""
        too_many = self._are_too_many(missed)
        return {
            key: missing.since or self.at
            for key, missing in missed.items()
            if not self.rejects and (key in self.old or self._is_removed(missing, too_many=too_many))
        }

    def _are_too_many(self, missed: Mapping[Key, Missing]) -> bool:
        newly = sum(not missing.needs_full for key, missing in missed.items() if key not in self.old)
        return 2 * newly > self.known

    def _is_removed(self, missing: Missing, *, too_many: bool) -> bool:
        if missing.needs_full:
            assert missing.since is not None
            return not self.recent and self.started - missing.since >= timedelta(hours=1)
        return not too_many and (not self.recent or missing.since is not None)

    def pending(self, missed: Mapping[Key, Missing]) -> dict[Key, Missing]:
        """Return the items whose removal is not decided yet."""
        if self.rejects:
            return dict(missed)
        too_many, removed = self._are_too_many(missed), self.removed(missed)
        return {
            key: Missing(missing.since or self.at, missing.last_seen, missing.needs_full or too_many)
            for key, missing in missed.items()
            if key not in removed
        }


def completed(before: Closed | None, feed: Feed, *, pages: int, at: datetime, share: float, is_posts: bool) -> Closed:
    """Return the state after a full scan; after a broken order, two full scans must prove the order again."""
    proofs = before.proofs if before else 1
    if is_posts and feed.broken_by is not None:
        proofs = 2
    elif is_posts and feed.read_to is not None:
        proofs = max(proofs - 1, 0)
    is_ordered = proofs == 0 and feed.read_to is not None and feed.broken_by is None
    return Closed(at, pages, feed.received, share, proofs, is_ordered, feed.broken_by)


def why_full(closed: Closed | None, mode: str, now: datetime, *, needs_full: bool) -> Why | None:
    """Return why a scan must be full; None if it may be recent."""
    if closed is None:
        return "first_scan"
    if mode == "full_refresh":
        return "full_refresh"
    if not closed.is_ordered:
        return "order_not_proved"
    if needs_full:
        return "removals_pending"
    if closed.pages < _LEAST_PAGES:
        return "few_pages"
    return "full_due" if now >= closed.complete_at + EVERY * closed.share else None
