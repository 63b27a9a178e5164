"""One scan: what it uses, where it begins, and the outcome that ends it. flows/engine/pages.py requests its pages.

The same code runs in the process that writes the warehouse and on workers: `ScanContext` has what differs.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from connectors.source.endpoints import ACCOUNTS
from connectors.source.errors import ApiError, Deferred, Failure, client_error
from connectors.source.pagination import LoopGuard
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.responses import Response
from connectors.source.retry import Attempts, Send
from flows.engine.requests import Requests
from flows.engine.run_request import RunRequest
from flows.reporting.progress import Progress
from flows.reporting.words import join
from models.checkpoint import Checkpoint, ScanState, plan_scan
from models.clock import Clock
from models.feeds import FEEDS
from models.incremental import FeedProgress, FullReason, Post
from models.page_commit import PageCommit, ReceivedPage
from models.partition import CATALOGUE, Partition
from models.runs import ACCOUNTS_REJECTED, ITEMS_REJECTED, Outcome, OutcomeKind, began_within

_DONE_AS = {ScanState.COMPLETE: OutcomeKind.COMPLETE, ScanState.RECENT: OutcomeKind.RECENT}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScanContext:
    """What the scans of a run use: `send` makes a request, `land` returns when a commit is durable.

    `resumed` are the runs that it resumes, `read_posts` reads the posts of a page with the mapping of the warehouse.
    """

    request: RunRequest
    run_id: str
    resumed: tuple[str, ...]
    send: Send
    requests: Requests
    land: Callable[[PageCommit], Awaitable[None]]
    read_posts: Callable[[str], Sequence[Post]]
    clock: Clock
    random: Callable[[], float]
    new_id: Callable[[], str]
    progress: Progress


@dataclass(frozen=True, slots=True)
class Start:
    """What must be known of a partition before its scan: its last checkpoint, and how deep it reads.

    It reads to the last page, because of `full`, or to `known` posts, which the last closed scan has seen; `known_seq`
    is the landing number of that scan. `seen` are the ids that an unfinished scan has received. `listed_as` is the
    account's id as the API writes it, `token_expired` its status, `number` its place among the accounts of the run.
    """

    partition: Partition
    last: Checkpoint | None
    full: FullReason | None = FullReason.FIRST
    known_seq: int | None = None
    known: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    listed_as: str = ""
    username: str | None = None
    token_expired: bool = False
    number: int = 0


@dataclass(slots=True)
class Scan:
    """A scan between two pages: all that the next page needs. Another process can continue it.

    `pages` and `items` count what this run landed. `note` becomes the detail of its outcome. `failed_at` is the
    checkpoint at whose cursor it failed before it began again; `refused_after` counts the items up to the last cursor
    that the API refused. `attempts` is how the page that is due is requested. A scan that `may_repeat` has no outcome
    if it fails for a passing reason: the run scans it once more.
    """

    start: Start
    began: datetime
    checkpoint: Checkpoint
    guard: LoopGuard
    feed: FeedProgress | None
    attempts: Attempts
    pages: int = 0
    items: int = 0
    is_too_old: bool = False
    note: str | None = None
    refused_after: int | None = None
    failed_at: Checkpoint | None = None
    may_repeat: bool = False

    @property
    def partition(self) -> Partition:
        """Return what is scanned."""
        return self.start.partition

    @property
    def operation(self) -> str:
        """Return the operation that lists it (API 4)."""
        return ACCOUNTS if self.partition == CATALOGUE else FEEDS[self.partition.surface].operation

    @property
    def smaller_pages(self) -> str | None:
        """Return a sentence about smaller pages than the run's, if they were requested."""
        reason = self.attempts.reduced_by
        return reason and f"Pages of {self.attempts.limit} items were requested, because larger ones failed ({reason})."

    @property
    def about(self) -> dict[str, object]:
        """Return the fields of log records about it."""
        account = self.partition.account_id or None
        return {"partition": str(self.partition), "account": account, "username": self.start.username}


@dataclass(slots=True)
class AccountScan:
    """The scans of an account that are `left`: not begun, or to be continued. They share the scope's wait `budget`."""

    budget: RateLimitBudget
    left: list[Start | Scan]


def begin_scan(run: ScanContext, start: Start) -> Scan:
    """Decide where a scan begins."""
    request, now, feed = run.request, run.clock.now(), FEEDS.get(start.partition.surface)
    checkpoint = plan_scan(
        start.partition,
        start.last,
        run_id=run.run_id,
        resumed_runs=run.resumed,
        now=now,
        fresh_within=request.within,
        new_id=run.new_id,
        run_kind=request.kind,
        known_seq=start.known_seq,
    )
    scan = Scan(
        replace(start, seen=frozenset()),
        now,
        checkpoint,
        LoopGuard.after(checkpoint.cursor, checkpoint.repeated_pages, checkpoint.empty_pages),
        FeedProgress() if feed is not None and feed.may_be_ordered else None,
        Attempts(request.settings.page_size),
    )
    if checkpoint.pages and not checkpoint.is_closed:
        scan.note = f"Resumed after {checkpoint.pages} pages."
        scan.is_too_old = not began_within(checkpoint.started_at, now=now, within=request.within)
        if scan.feed is not None:
            # If pages have shifted, the next one begins with items that an earlier run received.
            scan.feed = checkpoint.feed(start.seen)
        # Without the items that an earlier run saw, a listing that repeats itself would never end.
        scan.guard.remember(start.seen)
    return scan


def scan_again(run: ScanContext, scan: Scan, note: str) -> None:
    """Begin a scan again at its first page, because of what `note` says."""
    before, now = scan.checkpoint, run.clock.now()
    # After a violation of the order, the scan must be full.
    known_seq = scan.start.known_seq if before.order_broken_by is None else None
    kind = run.request.kind
    scan.checkpoint = Checkpoint(scan.partition, run.new_id(), run.run_id, now, now, run_kind=kind, known_seq=known_seq)
    scan.guard = LoopGuard.after(None)
    scan.feed = None if scan.feed is None else FeedProgress()
    scan.attempts.failures.clear()
    scan.is_too_old = False
    scan.note = note


def received_page(
    run: ScanContext, scan: Scan, body: bytes, correlation_id: str | None, *, is_readable: bool
) -> ReceivedPage:
    """Return the page that is due as it lands; the body of one that is not readable goes to quarantine."""
    return ReceivedPage(
        partition=scan.partition,
        run_id=run.run_id,
        scan_id=scan.checkpoint.scan_id if is_readable else "",
        page=scan.checkpoint.pages + 1,
        received_at=run.clock.now(),
        correlation_id=correlation_id,
        body=body,
    )


def describe_failure(failure: Failure) -> dict[str, Any]:
    """Return the fields of an outcome that an error has."""
    return {
        "kind": OutcomeKind(failure.outcome),
        "error_code": failure.code,
        "http_status": failure.status,
        "correlation_id": failure.correlation_id,
        "detail": failure.message,
    }


def failed_outcome(run: ScanContext, scan: Scan, error: ApiError | Deferred) -> Outcome:
    """Return the outcome of a scan that an error ended (API 7)."""
    if isinstance(error, ApiError):
        return _outcome(run, scan, **describe_failure(error.failure))
    about: dict[str, Any] = {
        "error_code": "rate_limited",
        "detail": "A cooldown from an earlier run is still active.",
    }
    if error.error is not None:
        about = describe_failure(error.error)
    return _outcome(run, scan, **about | {"kind": OutcomeKind.DEFERRED, "resume_after": error.resume_after})


def closed_outcome(run: ScanContext, scan: Scan) -> Outcome:
    """Return the outcome of a scan that is closed at its checkpoint."""
    checkpoint, broken = scan.checkpoint, None
    if checkpoint.known_seq is not None and checkpoint.order_broken_by is not None:
        broken = "The posts are not listed newest first, so all of them were fetched."
    return _outcome(run, scan, kind=_DONE_AS[checkpoint.state], detail=join(" ", (scan.note, broken)) or None)


def ended_outcome(run: ScanContext, scan: Scan, response: Response) -> Outcome:
    """Return the outcome of a scan whose last page was this response; it failed if most records were rejected."""
    checkpoint = scan.checkpoint
    if checkpoint.is_closed:
        return closed_outcome(run, scan)
    code, what = ITEMS_REJECTED, "items have no id that gramhouse knows, or are not JSON"
    if scan.partition == CATALOGUE:
        code, what = ACCOUNTS_REJECTED, "accounts are malformed"
    message = f"{checkpoint.rejected:,} of {checkpoint.items:,} {what}"
    error = client_error(response.operation, code, message, correlation_id=response.correlation_id)
    _log.warning("%s: %s", scan.partition, error.failure, extra={**scan.about, **error.failure.facts})
    return failed_outcome(run, scan, error)


def _outcome(run: ScanContext, scan: Scan, *, detail: str | None = None, **about: Any) -> Outcome:  # noqa: ANN401 - fields of an outcome
    if (smaller := scan.smaller_pages) is not None:
        detail = f"{detail.rstrip('.')}. {smaller}" if detail else smaller
    return Outcome(
        partition=scan.partition,
        run_id=run.run_id,
        started_at=scan.began,
        ended_at=run.clock.now(),
        pages=scan.pages,
        items=scan.items,
        detail=detail,
        **about,
    )
