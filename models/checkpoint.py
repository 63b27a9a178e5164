"""A scan's durable progress, and the decision where the next run takes it up."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from models.incremental import Feed, resumed_feed
from models.partition import Partition
from models.runs import is_recent

# Whose progress a checkpoint is: a backfill's scan of a partition never disturbs the sync's.
RunKind = Literal["sync", "backfill"]


class ScanState(StrEnum):
    """How far a scan is. Only closed ones say what is gone: complete, or recent, down to the depth they covered."""

    SCANNING = "scanning"
    COMPLETE = "complete"
    RECENT = "recent"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A scan's progress: `pages` and `items` landed so far, and the cursor of the page to ask for next.

    It becomes durable together with its page, in one frame of a segment, so it is never ahead of its rows.
    `pages` and `items` count the whole scan, over every run that took part in it; `run_id` is the last.
    `repeated_pages` and `empty_pages` count the last ones in a row that brought nothing new.

    With `known_seq` the scan may stop among posts that were known when the landing of that number closed a scan; None:
    it is full. `known_run`, `read_to` and `order_broken_by` are those of its `Feed`. `full_share`: once complete, after
    which part of the refresh interval the next full scan is due; None: a part that differs by account.
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

    def advance(
        self,
        *,
        run_id: str,
        next_cursor: str | None,
        items: int,
        at: datetime,
        repeated_pages: int = 0,
        empty_pages: int = 0,
        feed: Feed | None = None,
        full_share: float | None = None,
    ) -> "Checkpoint":
        """Return the checkpoint after one more page, with which `feed` is read as far as it says.

        API 8 rule 3: a null cursor, and only that, completes a scan. One that may is closed as recent where `feed`
        reaches known territory before.
        """
        read = Feed(0, self.known_run, self.read_to, self.order_broken_by) if feed is None else feed
        is_recent = self.known_seq is not None and next_cursor is not None and read.reaches_known
        before_the_end = ScanState.RECENT if is_recent else ScanState.SCANNING
        return replace(
            self,
            run_id=run_id,
            updated_at=at,
            cursor=None if is_recent else next_cursor,
            pages=self.pages + 1,
            items=self.items + items,
            state=ScanState.COMPLETE if next_cursor is None else before_the_end,
            repeated_pages=repeated_pages,
            empty_pages=empty_pages,
            known_run=read.known_run,
            read_to=read.read_to,
            order_broken_by=read.order_broken_by,
            full_share=full_share,
        )

    @property
    def is_closed(self) -> bool:
        """Whether it reached the last page, or known territory."""
        return self.state in (ScanState.COMPLETE, ScanState.RECENT)

    def feed(self, seen: Collection[str]) -> Feed:
        """Return how far it has read its feed; `seen` are the ids of what it received."""
        return resumed_feed(self.items, self.known_run, self.read_to, self.order_broken_by, seen)

    def abandon(self, *, run_id: str, at: datetime) -> "Checkpoint":
        """Return the checkpoint of a scan that must not be resumed again: the next one starts afresh."""
        return replace(self, run_id=run_id, updated_at=at, cursor=None, state=ScanState.ABANDONED)


@dataclass(frozen=True, slots=True)
class Fresh:
    """Scan from the first page."""

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Resume:
    """Continue a scan at a page that another run was about to ask for."""

    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Done:
    """Ask for nothing: the interrupted run that this one resumes had finished this scan."""

    checkpoint: Checkpoint


def plan_scan(
    partition: Partition,
    last: Checkpoint | None,
    *,
    run_id: str,
    resumed_runs: Collection[str],
    now: datetime,
    fresh_within: timedelta,
    new_id: Callable[[], str],
    run_kind: RunKind = "sync",
    known_seq: int | None = None,
) -> Fresh | Resume | Done:
    """Decide where a run resumes a partition whose last checkpoint by its kind of run is `last`.

    `resumed_runs` holds the ids of the interrupted runs which this run resumes: what they completed counts
    as this run's own work, and no page of it is asked for again. A scan that began longer ago than `fresh_within` does
    not count, whichever run completed it: what was published since stands on pages that it had passed. A backfill scans
    from the first page, so it resumes only what such a run left. With `known_seq` (see Checkpoint) the scan may be a
    recent one; otherwise a recent one of such a run is not enough, and an unfinished one continues as a full one.
    """
    resumes = last is not None and last.run_id in resumed_runs
    is_enough = last is not None and (
        last.state is ScanState.COMPLETE or (last.state is ScanState.RECENT and known_seq is not None)
    )
    is_enough = is_enough and last is not None and is_recent(last.started_at, now=now, within=fresh_within)
    if last is not None and resumes and is_enough:
        return Done(last)
    half_way = last is not None and last.state is ScanState.SCANNING and last.cursor is not None
    if last is not None and half_way and (resumes or run_kind == "sync"):
        # Its run of known posts was counted by what was known then.
        return Resume(last if last.known_seq == known_seq else replace(last, known_seq=None))
    return Fresh(
        Checkpoint(partition, new_id(), run_id, started_at=now, updated_at=now, run_kind=run_kind, known_seq=known_seq)
    )
