"""Incremental scans of posts: whether a feed is in order, how deep a scan must read, when a full scan is due.

API v1 does not specify the order of posts, so nothing here relies on an order that was not observed.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple

# The first posts may be pinned, so they are no evidence of order, depth or removals. Instagram allows three pins.
PINS = 3

# A recent scan stops after this many consecutive posts that are known and older than the lookback window.
KNOWN_RUN = 20

# If a full scan takes fewer pages than this, a recent one saves too little.
LEAST_PAGES = 3

# Differences between clocks are smaller than this. A publication time further in the future is treated as unknown.
FUTURE = timedelta(days=1)

# Consecutive full scans that must find posts in order before recent scans rely on it: initially, and after a violation.
PROOFS, PROOFS_AGAIN = 1, 2

LOOKBACK_WINDOW = timedelta(days=28)
FULL_REFRESH_EVERY = timedelta(days=7)

# Replaces the id of the post that broke the order if it has none, or if a rebuild made the order unknown.
NO_ID = ""

SyncMode = Literal["full_refresh", "incremental"]


class Post(NamedTuple):
    """A post on a page. `media_id` is None if it has no id, `published_at` if it has no readable time."""

    media_id: str | None
    published_at: datetime | None


@dataclass(frozen=True, slots=True)
class FeedProgress:
    """The progress of a scan in a feed.

    `positions` is the number of posts received. `known_run` is the number of consecutive posts, up to the last one,
    that are known and older than the lookback window. `read_to` is the publication time of the last post after the
    pins, and `order_broken_by` the id of the first post that broke the order. `pins` and `page` are the ids of the pins
    and of the last page.
    """

    positions: int = 0
    known_run: int = 0
    read_to: datetime | None = None
    order_broken_by: str | None = None
    pins: frozenset[str] = frozenset()
    page: frozenset[str] = frozenset()

    @property
    def reaches_known(self) -> bool:
        """Whether known posts are reached: a recent scan may stop here."""
        return self.order_broken_by is None and self.known_run >= KNOWN_RUN


def read_page(
    feed: FeedProgress, posts: Iterable[Post], *, known: Collection[str], older_than: datetime, received_at: datetime
) -> FeedProgress:
    """Return the feed after one more page.

    `known` are ids of posts that a closed scan has seen. Posts published before `older_than` are outside the lookback
    window. A post that is a pin, or was already on this page or the previous one, is skipped: a feed may shift between
    two requests.
    """
    positions, run, read_to, broken_by = feed.positions, feed.known_run, feed.read_to, feed.order_broken_by
    pins, page = set(feed.pins), set[str]()
    latest = received_at + FUTURE
    for post in posts:
        positions += 1
        media_id, at = post.media_id, post.published_at
        is_repeated = media_id is not None and (media_id in pins or media_id in page or media_id in feed.page)
        if media_id is not None:
            (pins if positions <= PINS else page).add(media_id)
        if positions <= PINS or is_repeated:
            continue
        if at is None or at > latest or (read_to is not None and at > read_to):
            broken_by = (media_id or NO_ID) if broken_by is None else broken_by
            run = 0
            continue
        read_to = at
        run = run + 1 if at < older_than and media_id in known else 0
    return FeedProgress(positions, run, read_to, broken_by, frozenset(pins), frozenset(page) or feed.page)


@dataclass(frozen=True, slots=True)
class ClosedScan:
    """A partition's last closed scans: full ones, and recent ones that reached known posts.

    `seq` is the landing number of the last page of the latest of them. `complete_at` and `pages` describe the last
    full one. The next full scan is due at `complete_at` plus `full_share` of the refresh interval.
    """

    seq: int
    complete_at: datetime
    closed_at: datetime
    pages: int
    is_ordered: bool
    full_share: float


@dataclass(frozen=True, slots=True)
class Incremental:
    """How a run decides between full and recent scans; `at` is when the run began."""

    at: datetime
    every: timedelta = FULL_REFRESH_EVERY


class FullReason(StrEnum):
    """Why a scan reads to the last page; `ALWAYS`: each scan of this kind of run or of feed does."""

    FIRST = "first"
    ALWAYS = "always"
    NOT_IN_ORDER = "not_in_order"
    FEW_PAGES = "few_pages"
    DUE = "due"


def why_full(closed: ClosedScan | None, incremental: Incremental | None) -> FullReason | None:
    """Return why a scan of a feed must be full; None if it may stop at known posts.

    `closed` are its last closed scans. Without `incremental` all are full.
    """
    if closed is None:
        return FullReason.FIRST
    if incremental is None:
        return FullReason.ALWAYS
    if not closed.is_ordered:
        return FullReason.NOT_IN_ORDER
    if closed.pages < LEAST_PAGES:
        return FullReason.FEW_PAGES
    age = (incremental.at - closed.complete_at) / incremental.every
    return FullReason.DUE if age >= closed.full_share else None
