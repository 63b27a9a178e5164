"""Scans as the flows carry them on: held in mind while a process lives, resumed at their checkpoint by the next."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from connectors.warehouse.runs.closed_scans import closed_scans, known_posts
from connectors.warehouse.runs.progress import checkpoints, seen
from models import incremental
from models.checkpoint import Checkpoint, Done, Resume, ScanState, plan_scan
from models.incremental import FullReason, Incremental
from models.page_commit import PageCommit, StagedPage
from models.page_items import post_reader
from models.runs import Outcome, OutcomeKind
from models.schema.mapping_built_in import BUILT_IN
from tests.model.recent import EVERY, LOOKBACK, Feed, why_full
from tests.simulation.model import listed
from tests.stateful.model import Heard, Model, Row, Where
from tests.stateful.pages import Page
from tests.stateful.process import Process
from tests.warehouse.rig import body


@dataclass(frozen=True)
class Told:
    """A page on its way into the warehouse, and what the model hears of it if it lands."""

    landing: PageCommit
    heard: Heard
    checkpoint: Checkpoint
    outcomes: tuple[Row, ...]
    reader: "Reader | None" = None

    @property
    def run_kind(self) -> Row:
        """Whose progress it is."""
        return (*self.heard.where, self.checkpoint.run_kind)

    @property
    def progress(self) -> Row:
        """Its checkpoint, as the warehouse must tell it."""
        one = self.checkpoint
        return (one.scan_id, one.cursor, one.pages, one.items, one.state.value)

    @property
    def staged(self) -> Row:
        """Its page, as it must wait for a merge."""
        page = self.landing.page
        assert page is not None
        return (page.scan_id, page.page, page.body)


@dataclass(frozen=True)
class Depth:
    """How deep a process scans a feed, as the flows decide it: why it is full, or the posts at which it may stop."""

    full: FullReason | None
    known_seq: int | None
    known: frozenset[str]


def depth_of(process: Process, model: Model, page: Page, now: datetime) -> Depth:
    """Return how deep a scan that begins or goes on now is to be; the model must say the same."""
    where = where_of(page)
    mode = page.mode if page.run_kind == "sync" else "full_refresh"
    closed = process.run(process.warehouse.transact(closed_scans, [where[1]])).get(where[1])
    full = incremental.why_full(closed, Incremental(now, EVERY) if mode == "incremental" else None)
    expected = why_full(model.media.closed.get(where[1:]), mode, now, needs_full=model.media.needs_full(where[1:]))
    assert (full and full.value) == expected, (full, expected)
    if full is not None or closed is None:
        return Depth(full, None, frozenset())
    older_than = now - LOOKBACK
    found = process.run(process.warehouse.transact(known_posts, {where[1]: closed}, older_than=older_than))
    known = found.get(where[1], frozenset())
    assert known == model.known(where, older_than)
    return Depth(None, closed.seq, known)


def where_of(page: Page) -> Where:
    """The partition of a page, in words."""
    return (page.partition.resource, page.partition.account_id, page.partition.surface)


@dataclass(frozen=True)
class Reader:
    """A scan of a feed in the mind of its process: how it reads, and how the model says that it must."""

    depth: Depth
    read: incremental.Feed
    feed: Feed


def taken_up(process: Process, page: Page, *, scan_id: str, now: datetime, depth: Depth | None = None) -> Checkpoint:
    """The checkpoint from which a process goes on that knows nothing of its partition yet."""
    where = page.partition
    found = process.run(process.warehouse.transact(checkpoints, where.resource, [where.account_id], page.run_kind))
    last = found.get(where)
    # A backfill resumes only what a run left that it resumes.
    resumed_runs = {last.run_id} if last and last.state is ScanState.SCANNING else set()
    plan = plan_scan(
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
    assert not isinstance(plan, Done)
    if isinstance(plan, Resume) and depth and last and last.known_seq != depth.known_seq:
        assert plan.checkpoint.known_seq is None, "what it stops at is not what it was"
    return plan.checkpoint


def reader(process: Process, model: Model, scan: Checkpoint, depth: Depth, feed: Feed | None) -> Reader:
    """A process begins to read a feed, or goes on where another was: `feed` is what the model knows of that."""
    received = process.run(process.warehouse.transact(seen, scan.scan_id)) if scan.pages else ()
    feed = Feed() if feed is None else feed.copy()
    if scan.pages:
        assert set(received) == {key[2] for key in model.seen[scan.scan_id]}
        feed.resume(received)
    return Reader(depth, scan.feed(received), feed)


def tell(before: Checkpoint, page: Page, at: datetime, reader: Reader | None = None) -> Told:
    """The landing of a scan's next page, received `at`."""
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
    staged = StagedPage(page.partition, after.run_id, after.scan_id, after.pages, at, None, text)
    # A scan that goes nowhere: its last page lands, and it is given up.
    after = after.abandon(run_id=after.run_id, at=at) if page.after == "is given up" else after
    where = where_of(page)
    heard = Heard(
        where, after.scan_id, after.started_at, at, page.items, after.is_closed,
        recent=is_recent, pages=after.pages, share=share, feed=feed,
    )  # fmt: skip
    next_reader = None if reader is None or read is None else Reader(reader.depth, read, feed)
    if not after.is_closed:
        return Told(PageCommit(staged, after), heard, after, (), next_reader)
    kind = OutcomeKind.RECENT if is_recent else OutcomeKind.COMPLETE
    outcome = Outcome(page.partition, after.run_id, kind, after.started_at, at)
    rows = ((after.run_id, *where, kind.value),)
    return Told(PageCommit(staged, after, (outcome,)), heard, after, rows, next_reader)
