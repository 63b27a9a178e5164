"""A scan's durable progress, and the decision where the next run continues it."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from models.incremental import FeedProgress
from models.partition import Partition
from models.runs import began_within

# Each kind of run has its own checkpoints, so a backfill's scan of a partition never disturbs the sync's.
RunKind = Literal["sync", "backfill"]


class ScanState(StrEnum):
    """The state of a scan. Only closed ones decide removals: complete ones, and recent ones within their depth."""

    SCANNING = "scanning"
    COMPLETE = "complete"
    RECENT = "recent"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Checkpoint:
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

    def advance(
        self,
        *,
        run_id: str,
        next_cursor: str | None,
        items: int,
        at: datetime,
        rejected: int = 0,
        token_expired: bool = False,
        repeated_pages: int = 0,
        empty_pages: int = 0,
        feed: FeedProgress | None = None,
        full_share: float | None = None,
    ) -> "Checkpoint":
        """Return the checkpoint after one more page; `feed` is the state of the feed after it.

        Only a null cursor completes a scan (API 8 rule 3). A scan with `known_seq` is closed as recent if `feed`
        reaches known posts first. A scan that rejected more than half of its items is abandoned instead: it has not
        seen them, so it neither makes them fresh nor decides removals.
        """
        read = self.feed(()) if feed is None else feed
        if next_cursor is None:
            state = ScanState.COMPLETE
        else:
            is_recent = self.known_seq is not None and read.reaches_known
            state = ScanState.RECENT if is_recent else ScanState.SCANNING
        after = replace(
            self,
            run_id=run_id,
            updated_at=at,
            cursor=next_cursor if state is ScanState.SCANNING else None,
            pages=self.pages + 1,
            items=self.items + items,
            rejected=self.rejected + rejected,
            had_expired_token=self.had_expired_token or token_expired,
            state=state,
            repeated_pages=repeated_pages,
            empty_pages=empty_pages,
            known_run=read.known_run,
            read_to=read.read_to,
            order_broken_by=read.order_broken_by,
            full_share=full_share,
        )
        return replace(after, state=ScanState.ABANDONED) if after.is_closed and after.rejects_most else after

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

    def feed(self, seen: Collection[str]) -> FeedProgress:
        """Return the state of the feed; `seen` are the ids of the items that the scan has received."""
        return FeedProgress(self.items, self.known_run, self.read_to, self.order_broken_by, page=frozenset(seen))

    def abandon(self, *, run_id: str, at: datetime) -> "Checkpoint":
        """Return the checkpoint as abandoned: this scan is not resumed, and the next one starts at the first page."""
        return replace(self, run_id=run_id, updated_at=at, cursor=None, state=ScanState.ABANDONED)


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
        # `known_run` was counted with the posts known at `last.known_seq`.
        return last if last.known_seq == known_seq else replace(last, known_seq=None)
    return fresh
