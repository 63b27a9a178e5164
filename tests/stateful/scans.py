"""Scans as the flows perform them: in memory during a process, resumed from their checkpoint by the next one."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from connectors.warehouse.runs.closed_scans import closed_scans, known_items
from connectors.warehouse.runs.progress import seen
from models import incremental
from models.checkpoint import Checkpoint, ScanState, plan_scan
from models.incremental import FullReason, Incremental
from models.mapping import BUILT_IN
from models.page_commit import PageCommit, ReceivedPage
from models.page_items import post_reader
from models.partition import media
from models.runs import Outcome, OutcomeKind
from tests.model.recent import EVERY, LOOKBACK, Feed, why_full
from tests.simulation.model import listed
from tests.stateful.model import LandedPage, Model, Row, Where
from tests.stateful.pages import Page
from tests.stateful.process import Process
from tests.warehouse.rig import body


@dataclass(frozen=True)
class PendingPage:
    """A page to land, and the same page for the model, if it lands."""

    landing: PageCommit
    landed_page: LandedPage
    checkpoint: Checkpoint
    outcomes: tuple[Row, ...]
    reader: "Reader | None" = None

    @property
    def run_kind(self) -> Row:
        """The partition and run kind of the scan."""
        return (*self.landed_page.where, self.checkpoint.run_kind)

    @property
    def progress(self) -> Row:
        """Its checkpoint as the warehouse must store it."""
        one = self.checkpoint
        return (one.scan_id, one.cursor, one.pages, one.items, one.state.value)

    @property
    def landed(self) -> Row:
        """Its page as it must be in a segment."""
        page = self.landing.page
        assert page is not None
        return (page.scan_id, page.page, page.body)


@dataclass(frozen=True)
class Depth:
    """How deep a process scans a feed: the reason for a full scan, or the known posts at which it may stop."""

    full: FullReason | None
    known_seq: int | None
    known: frozenset[str]


def depth_of(process: Process, model: Model, page: Page, now: datetime) -> Depth:
    """Return the depth of a scan that begins or continues now; assert that the model agrees."""
    where = where_of(page)
    feed = media(where[1], where[2])
    mode = page.mode if page.run_kind == "sync" else "full_refresh"
    closed = process.run(process.warehouse.read(closed_scans, [where[1]])).get(feed)
    full = incremental.why_full(closed, Incremental(now, EVERY) if mode == "incremental" else None)
    expected = why_full(model.media.closed.get(where[1:]), mode, now)
    assert (full and full.value) == expected, (full, expected)
    if full is not None or closed is None:
        return Depth(full, None, frozenset())
    older_than = now - LOOKBACK
    found = process.run(process.warehouse.read(known_items, {feed: closed}, older_than=older_than))
    known = found.get(feed, frozenset())
    assert known == model.known(where, older_than)
    return Depth(None, closed.seq, known)


def where_of(page: Page) -> Where:
    """Return the partition of a page as strings."""
    return (page.partition.resource, page.partition.account_id, page.partition.surface)


@dataclass(frozen=True)
class Reader:
    """The state of a feed's scan in a process: gramhouse's (`read`) and the model's (`feed`)."""

    depth: Depth
    read: incremental.FeedProgress
    feed: Feed


def load_checkpoint(
    process: Process, page: Page, *, scan_id: str, now: datetime, depth: Depth | None = None
) -> Checkpoint:
    """Return the checkpoint with which a new process begins or resumes a scan."""
    where = page.partition
    found = process.run(process.warehouse.checkpoints([where.account_id], page.run_kind))
    last = found.get(where)
    # A backfill resumes only scans of a run that it resumes.
    resumed_runs = {last.run_id} if last and last.state is ScanState.SCANNING else set()
    begun = plan_scan(
        where,
        last,
        run_id=f"run of {scan_id}",
        resumed_runs=resumed_runs,
        now=now,
        fresh_within=timedelta(hours=12),
        new_id=lambda: scan_id,
        run_kind=page.run_kind,
        known_seq=depth.known_seq if depth else None,
    )
    assert not begun.is_closed
    if begun.pages and depth and last and last.known_seq != depth.known_seq:
        assert begun.known_seq is None, "the known posts have changed, so the scan must be full"
    return begun


def reader(process: Process, model: Model, scan: Checkpoint, depth: Depth, feed: Feed | None) -> Reader:
    """Begin or resume reading a feed; `feed` is the model's state of a resumed scan."""
    received = process.run(process.warehouse.read(seen, scan.scan_id)) if scan.pages else ()
    feed = Feed() if feed is None else feed.copy()
    if scan.pages:
        assert set(received) == {key[2] for key in model.scans[scan.scan_id].seen}
        feed.resume(received)
    return Reader(depth, scan.feed(received), feed)


def next_page(before: Checkpoint, page: Page, at: datetime, reader: Reader | None = None) -> PendingPage:
    """Return the next page of a scan, received `at`."""
    cursor = None if page.after == "ends" else page.leads_to or f"{before.scan_id}/{before.pages + 1}"
    text = body(page.items, cursor)
    feed, share, read = Feed(), None, None
    if reader is not None:
        share = 1.0 if reader.depth.full is FullReason.DUE else None
        older_than = before.started_at - LOOKBACK
        posts = post_reader(BUILT_IN)(text)
        read = incremental.read_page(
            reader.read, posts, known=reader.depth.known, older_than=older_than, received_at=at
        )
        feed = reader.feed.copy()
        feed.read(listed(page.items), reader.depth.known, (older_than, older_than), at)
    after = before.advance(
        run_id=before.run_id, next_cursor=cursor, items=len(page.items), at=at, feed=read, full_share=share
    )
    is_recent = after.state is ScanState.RECENT
    assert is_recent == (before.known_seq is not None and cursor is not None and feed.may_stop())
    received = ReceivedPage(page.partition, after.run_id, after.scan_id, after.pages, at, None, text)
    # The page lands, and its scan is abandoned.
    after = after.abandon(run_id=after.run_id, at=at) if page.after == "is abandoned" else after
    where = where_of(page)
    landed_page = LandedPage(
        where, after.scan_id, after.started_at, at, page.items, after.is_closed,
        recent=is_recent, pages=after.pages, share=share, feed=feed,
    )  # fmt: skip
    next_reader = None if reader is None or read is None else Reader(reader.depth, read, feed)
    if not after.is_closed:
        return PendingPage(PageCommit(received, after), landed_page, after, (), next_reader)
    kind = OutcomeKind.RECENT if is_recent else OutcomeKind.COMPLETE
    outcome = Outcome(page.partition, after.run_id, kind, after.started_at, at)
    rows = ((after.run_id, *where, kind.value),)
    return PendingPage(PageCommit(received, after, (outcome,)), landed_page, after, rows, next_reader)
