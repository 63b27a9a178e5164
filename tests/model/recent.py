"""Where a scan of posts may stop, and what it then says: the rules of decision 32, in plain Python."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import md5
from typing import Literal, NamedTuple

# Feeds are small here, and so is what lets a scan stop.
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
    """After which part of the interval the full scan of an account is due that follows one that was not due."""
    return (1 + int(md5(account_id.encode(), usedforsecurity=False).hexdigest()[:8], 16)) / 2**32


@dataclass
class Feed:
    """What a scan has received of a feed. When it began is known to lie between two times: so `run` is counted twice.

    `run` counts the known and old posts at the end with the earlier time, `longest_run` with the later one.
    """

    received: int = 0
    run: int = 0
    longest_run: int = 0
    read_to: datetime | None = None
    broken_by: str | None = None
    pins: set[str] = field(default_factory=set)
    page: set[str] = field(default_factory=set)

    def copy(self) -> "Feed":
        """Return the same, to be read on."""
        return replace(self, pins=set(self.pins), page=set(self.page))

    def resume(self, seen: Collection[str]) -> None:
        """Another process goes on, which knows what was received and not on which page."""
        self.pins, self.page = set(), set(seen)
        if self.received > PINS and self.read_to is None and self.broken_by is None:
            self.broken_by = ""

    def read(
        self, items: Iterable[Listed], known: Collection[str], older: tuple[datetime, datetime], at: datetime
    ) -> None:
        """Receive a page `at`; `older` are the earliest and the latest time at which the window may begin."""
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
        """Whether a recent scan may end here."""
        return self.broken_by is None and self.longest_run >= RUN

    def must_stop(self) -> bool:
        """Whether a recent scan that reads on wastes requests."""
        return self.broken_by is None and self.run >= RUN


@dataclass(frozen=True)
class Closed:
    """What the closed scans of a partition have left: the last full one, and a recent one since."""

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
        """When a scan last vouched for what was published then."""
        if self.recent_at is None or not is_covered(published, self.covered_from):
            return self.complete_at
        return max(self.complete_at, self.recent_at)


def is_covered(published: datetime | None, covered_from: datetime | None) -> bool:
    """Whether a recent scan down to `covered_from` says anything of what was published then."""
    return published is not None and covered_from is not None and published > covered_from


class Missing(NamedTuple):
    """An item that a closed scan missed: since when (None: the scan rejected records), and when one last saw it."""

    since: datetime | None
    last_seen: datetime
    needs_full: bool


@dataclass(frozen=True)
class Look:
    """What a closed scan says of items that it missed, of `known` that it should have seen; `old` are past their day.

    One that rejected a record says nothing. A recent one marks what another look missed before. Where most are missing
    nothing is marked, until a full scan that began an hour later misses them, too.
    """

    started: datetime
    at: datetime
    recent: bool
    rejects: bool
    known: int
    old: Collection[Key]

    def gone(self, missed: Mapping[Key, Missing]) -> dict[Key, datetime]:
        """Return what is gone, and since when."""
        too_many = self._are_too_many(missed)
        return {
            key: doubt.since or self.at
            for key, doubt in missed.items()
            if not self.rejects and (key in self.old or self._is_gone(doubt, too_many=too_many))
        }

    def _are_too_many(self, missed: Mapping[Key, Missing]) -> bool:
        newly = sum(not doubt.needs_full for key, doubt in missed.items() if key not in self.old)
        return 2 * newly > self.known

    def _is_gone(self, doubt: Missing, *, too_many: bool) -> bool:
        if doubt.needs_full:
            assert doubt.since is not None
            return not self.recent and self.started - doubt.since >= timedelta(hours=1)
        return not too_many and (not self.recent or doubt.since is not None)

    def doubted(self, missed: Mapping[Key, Missing]) -> dict[Key, Missing]:
        """Return what may be gone."""
        if self.rejects:
            return dict(missed)
        too_many, gone = self._are_too_many(missed), self.gone(missed)
        return {
            key: Missing(doubt.since or self.at, doubt.last_seen, doubt.needs_full or too_many)
            for key, doubt in missed.items()
            if key not in gone
        }


def completed(before: Closed | None, feed: Feed, *, pages: int, at: datetime, share: float, is_posts: bool) -> Closed:
    """What a full scan leaves: an order that was broken must be kept twice to be believed."""
    proofs = before.proofs if before else 1
    if is_posts and feed.broken_by is not None:
        proofs = 2
    elif is_posts and feed.read_to is not None:
        proofs = max(proofs - 1, 0)
    is_ordered = proofs == 0 and feed.read_to is not None and feed.broken_by is None
    return Closed(at, pages, feed.received, share, proofs, is_ordered, feed.broken_by)


def why_full(closed: Closed | None, mode: str, now: datetime, *, needs_full: bool) -> Why | None:
    """Why a scan must read to the last page."""
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
