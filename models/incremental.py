"""Incremental scans of posts: how deep a scan must read, and when a full scan is due.

API v1 does not specify the order of posts, so nothing here relies on an order that was not observed.
"""

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


class FullReason(StrEnum):
    """Why a scan reads to the last page; `ALWAYS`: each scan of this kind of run or of feed does."""

    FIRST = "first"
    ALWAYS = "always"
    NOT_IN_ORDER = "not_in_order"
    FEW_PAGES = "few_pages"
    DUE = "due"


def why_full(closed: ClosedScan | None, every: timedelta | None, *, at: datetime) -> FullReason | None:
    """Return why a scan of a feed by a run that began `at` a time must be full; None if it may stop at known posts.

    `closed` are its last closed scans. Full scans are made `every` so often; None: all are full.
    """
    if closed is None:
        return FullReason.FIRST
    if every is None:
        return FullReason.ALWAYS
    if not closed.is_ordered:
        return FullReason.NOT_IN_ORDER
    if closed.pages < LEAST_PAGES:
        return FullReason.FEW_PAGES
    return FullReason.DUE if (at - closed.complete_at) / every >= closed.full_share else None
