"""What lands: pages, and a scan's progress: where the next run continues it, how deep it reads, when a full one is due.

API v1 does not specify the order of posts, so nothing here relies on an order that was not observed.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from models.feeds import Partition
from models.runs import Outcome, began_within

# Each kind of run has its own checkpoints, so a backfill's scan of a partition never disturbs the sync's.
RunKind = Literal["sync", "backfill"]

# The first posts may be pinned, so they are no evidence of order, depth or removals. Instagram allows three pins.
PINS = 3

# A recent scan stops after this many consecutive posts that are known and older than the lookback window.
KNOWN_RUN = 20

# If a full scan takes fewer pages than this, a recent one saves too little.
LEAST_PAGES = 3

# Differences between clocks are smaller than this. A publication time further in the future is treated as unknown.
FUTURE = timedelta(days=1)

LOOKBACK_WINDOW = timedelta(days=28)
FULL_REFRESH_EVERY = timedelta(days=7)

SyncMode = Literal["full_refresh", "incremental"]


class Post(NamedTuple):
    """A post on a page. `media_id` is None if it has no id, `published_at` if it has no readable time."""

    media_id: str | None
    published_at: datetime | None


class ScanState(StrEnum):
    """The state of a scan. Only closed ones decide removals: complete ones, and recent ones within their depth."""

    SCANNING = "scanning"
    COMPLETE = "complete"
    RECENT = "recent"
    ABANDONED = "abandoned"


class Checkpoint(Struct, frozen=True):
    """A scan's progress: a row of the table `checkpoints` (models/tables.py), whose comments say what the fields are.

    It becomes durable together with its page, in one transaction, so it is never ahead of its rows. It is that of the
    whole scan, over every run that took part in it. `began_seq` is None before it is read from the state.
    """

    partition: Partition
    scan_id: str
    run_id: str
    started_at: datetime
    updated_at: datetime
    cursor: str | None = None
    pages: int = 0
    items: int = 0
    state: ScanState = ScanState.SCANNING
    run_kind: RunKind = "sync"
    repeated_pages: int = 0
    empty_pages: int = 0
    known_seq: int | None = None
    known_run: int = 0
    read_to: datetime | None = None
    order_broken_by: str | None = None
    full_share: float | None = None
    rejected: int = 0
    had_expired_token: bool = False
    began_seq: int | None = None

    @property
    def reaches_known(self) -> bool:
        """Whether a recent scan may stop here: all posts have been in order, and enough known ones came last."""
        return self.known_seq is not None and self.order_broken_by is None and self.known_run >= KNOWN_RUN

    def read_feed(
        self, posts: Iterable[tuple[Post, bool]], *, known: Collection[str], received_at: datetime
    ) -> "Checkpoint":
        """Return the checkpoint with what one more page shows of the order and depth of a feed, before it advances.

        Of each post the page says whether the scan lists it for the first time. Others are skipped, because a feed may
        shift between two requests, and so are the pins. `known` are ids of posts that a closed scan has seen, and that
        are older than the lookback window.
        """
        run, read_to, broken_by = self.known_run, self.read_to, self.order_broken_by
        latest = received_at + FUTURE
        for position, ((media_id, at), is_new) in enumerate(posts, self.items + 1):
            if position <= PINS or (media_id is not None and not is_new):
                continue
            if at is None or at > latest or (read_to is not None and at > read_to):
                broken_by = (media_id or "") if broken_by is None else broken_by
                run = 0
                continue
            read_to = at
            run = run + 1 if media_id in known else 0
        return replace(self, known_run=run, read_to=read_to, order_broken_by=broken_by)

    def advance(
        self, next_cursor: str | None, *, items: int, at: datetime, rejected: int = 0, has_new: bool = True
    ) -> "Checkpoint":
        """Return the checkpoint after one more page, which `has_new` items if any is listed for the first time.

        Only a null cursor completes a scan (API 8 rule 3); one that reaches known posts first is closed as recent. A
        scan that rejected more than half of its items is abandoned instead: it has not seen them, so it neither makes
        them fresh nor decides removals.
        """
        after = replace(
            self,
            updated_at=at,
            cursor=next_cursor,
            pages=self.pages + 1,
            items=self.items + items,
            rejected=self.rejected + rejected,
            repeated_pages=0 if has_new else self.repeated_pages + (items > 0),
            empty_pages=0 if has_new else self.empty_pages + (items == 0),
        )
        if next_cursor is not None and not self.reaches_known:
            return after
        state = ScanState.RECENT if next_cursor is not None else ScanState.COMPLETE
        return replace(after, cursor=None, state=ScanState.ABANDONED if after.rejects_most else state)

    @property
    def is_closed(self) -> bool:
        """Whether the scan reached the last page, or known posts."""
        return self.state in (ScanState.COMPLETE, ScanState.RECENT)

    @property
    def rejects_most(self) -> bool:
        """Whether more than half of the scan's items were rejected."""
        return 2 * self.rejected > self.items

    @property
    def had_cursor(self) -> bool:
        """Whether any page of the scan had a cursor."""
        is_ended = self.state is ScanState.COMPLETE or self.rejects_most
        return self.pages > 1 or self.cursor is not None or (self.pages == 1 and not is_ended)


def plan_scan(
    fresh: Checkpoint, last: Checkpoint | None, *, resumed_runs: Collection[str], within: timedelta
) -> Checkpoint:
    """Return the checkpoint at which a run begins its scan of a partition: `fresh`, or the `last` one of its run kind.

    If it is closed, one of `resumed_runs`, the interrupted runs that this one resumes, has finished the scan. That is
    repeated if it began longer ago than `within`: newer items are on pages that it had already passed. Unfinished scans
    are continued; by a backfill, which scans from the first page, only those of `resumed_runs`. If `fresh` has
    `known_seq`, the scan may be recent. Otherwise a recent scan is not enough, and an unfinished one continues as a
    full scan.
    """
    if last is None:
        return fresh
    resumes, known_seq = last.run_id in resumed_runs, fresh.known_seq
    is_enough = last.state is ScanState.COMPLETE or (last.state is ScanState.RECENT and known_seq is not None)
    if resumes and is_enough and began_within(last.started_at, now=fresh.started_at, within=within):
        return last
    if last.state is ScanState.SCANNING and last.cursor is not None and (resumes or fresh.run_kind == "sync"):
        return replace(
            last,
            run_id=fresh.run_id,
            # `known_run` was counted with the posts known at `last.known_seq`.
            known_seq=known_seq if last.known_seq == known_seq else None,
            full_share=fresh.full_share,
            had_expired_token=last.had_expired_token or fresh.had_expired_token,
        )
    return fresh


class ClosedScan(Struct, frozen=True):
    """A partition's last closed scans: full ones, and recent ones that reached known posts.

    `seq` is the landing number of the last page of the latest of them. `complete_at` and `pages` describe the last
    full one. The next full scan is due at `complete_at` plus `full_share` of the refresh interval.
    """

    seq: int
    complete_at: datetime
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


# A batch has about this many bytes: large enough that statements cost little, small enough that two fit into memory. An
# outcome counts like this many, because accounts that are skipped land tens of thousands of them without a page.
BATCH_BYTES = 12 * 1024 * 1024
_OUTCOME_BYTES = 4096

_NEVER = datetime.min.replace(tzinfo=UTC)


class ScopeCooldown(Struct, frozen=True):
    """A rate-limit scope's cooldown: no request before `resume_after` (API 4, 8), even after a restart.

    `asked_at` is when the API requested it, by the same clock: if that clock turns out to have been ahead, the length
    of the wait is still known.
    """

    scope: str
    resume_after: datetime
    asked_at: datetime | None = None


class Landing(Struct, frozen=True):
    """What lands together or not at all: a page as the API sent it, the checkpoint after it, and outcomes.

    `page` is its number in the scan, from 1; without a page it is 0, and `body` is empty. A page that cannot be parsed
    has no `scan_id`. `seq`, its number in the order of landing, from 1, and that of its run are known once it landed.
    """

    partition: Partition
    run_id: str
    scan_id: str = ""
    page: int = 0
    received_at: datetime = _NEVER
    correlation_id: str | None = None
    body: bytes = b""
    checkpoint: Checkpoint | None = None
    outcomes: tuple[Outcome, ...] = ()
    seq: int = 0
    run_seq: int = 0

    @property
    def began_seq(self) -> int:
        """Return the landing of the scan's first page."""
        return (self.checkpoint and self.checkpoint.began_seq) or self.seq

    @property
    def end(self) -> Checkpoint | None:
        """Return the checkpoint if the page closed its scan."""
        return self.checkpoint if self.page and self.checkpoint and self.checkpoint.is_closed else None

    @property
    def size(self) -> int:
        """Return about how many bytes a merge reads."""
        return len(self.body) + _OUTCOME_BYTES * len(self.outcomes)


def cut_batch(inbox: Iterable[Landing]) -> Sequence[Landing]:
    """Return the beginning of the inbox that is merged together; empty if the inbox is.

    It ends before the first page of a partition that an earlier page of the batch closed: within a batch, everything
    that was listed counts before any scan is closed.
    """
    batch: list[Landing] = []
    closed: set[Partition] = set()
    size = 0
    for landing in inbox:
        size += landing.size
        if batch and (size > BATCH_BYTES or (landing.body and landing.partition in closed)):
            break
        batch.append(landing)
        if landing.end is not None:
            closed.add(landing.partition)
    return batch
