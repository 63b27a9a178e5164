"""One scan: what it uses, where it begins, and the outcome that ends it. flows/engine/paging.py requests its pages.

The same code runs in the process that writes the warehouse and on workers: `ScanContext` has what differs.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from connectors.source.endpoints import ACCOUNTS, Response
from connectors.source.errors import ApiError, Deferred, Disposition, Failure, client_error
from connectors.source.pagination import LoopGuard
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.request_rate import RequestRate
from connectors.source.retry import Attempts, Send
from flows.engine.concurrency import Pacer, RunStopped, Slots, StopSignal
from flows.engine.run_request import RunRequest
from flows.reporting.progress import Progress
from flows.reporting.words import join
from models.checkpoint import Checkpoint, ScanState, plan_scan
from models.clock import Clock
from models.feeds import FEEDS
from models.incremental import FeedProgress, FullReason, Incremental, Post
from models.mapping import BUILT_IN, Mapping
from models.page_commit import PageCommit, ReceivedPage
from models.partition import CATALOGUE, Partition
from models.runs import ACCOUNTS_REJECTED, ITEMS_REJECTED, Outcome, OutcomeKind, began_within

SCOPE_DENIED = "api_scope_denied"
REQUEST_BUDGET = "request_budget"

_DONE_AS = {ScanState.COMPLETE: OutcomeKind.COMPLETE, ScanState.RECENT: OutcomeKind.RECENT}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a run found when it began, at `at`: the interrupted runs that it resumes, and how media are read.

    `stored_mapping` is the mapping in use in the warehouse. Without `incremental` every scan of posts is full.
    """

    run_id: str
    at: datetime
    resumed: tuple[str, ...] = ()
    stored_mapping: Mapping = BUILT_IN
    incremental: Incremental | None = None


class RequestsSpent(Exception):  # noqa: N818 - a limit that the user set, not an error
    """The run has made as many requests as it may."""


@dataclass(frozen=True, slots=True)
class ScanContext:
    """What the scans of a run use: `send` makes a request, `land` returns when a commit is durable.

    `bounds` is called before each request with 0, and before each sleep with its seconds; it raises an exception to end
    the scan between two pages.
    """

    request: RunRequest
    beginning: Beginning
    send: Send
    land: Callable[[PageCommit], Awaitable[None]]
    read_posts: Callable[[str], Sequence[Post]]
    clock: Clock
    random: Callable[[], float]
    new_id: Callable[[], str]
    slots: Slots
    progress: Progress
    pacer: Pacer
    bounds: Callable[[float], None]
    stop: StopSignal = field(default_factory=StopSignal)
    stop_media: StopSignal = field(default_factory=StopSignal)

    def answered(self, budget: RateLimitBudget, *, limited: bool) -> None:
        """Adapt the rate of requests to an answer."""
        self.progress.refused += limited
        now = self.clock.monotonic()
        self.adopt(self.pacer.rate.observe(budget.scope, limited=limited, now=now, pages=budget.pages))
        budget.pages = 0 if limited else budget.pages + 1

    def adopt(self, rate: RequestRate) -> None:
        """Send requests at this rate from now on."""
        self.pacer.rate = rate
        self.progress.allowed = rate.allowed if rate.is_limited(self.clock.monotonic()) else None


@dataclass(frozen=True, slots=True)
class Start:
    """What must be known of a partition before its scan: its last checkpoint, and how deep it reads.

    It reads to the last page, because of `full`, or to `known` posts, which the last closed scan has seen; `known_seq`
    is the landing number of that scan. `seen` are the ids that an unfinished scan has received. `listed_as` is the
    account's id as the API writes it, `token_expired` its status.
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


@dataclass(slots=True)
class Scan:
    """A scan between two pages: all that the next page needs. Another process can continue it.

    `pages` and `items` count what this run landed. `note` becomes the detail of its outcome. `failed_at` is the
    checkpoint at whose cursor it failed before it began again; `refused_after` counts the items up to the last cursor
    that the API refused. `attempts` is how the page that is due is requested.
    """

    start: Start
    began: datetime
    checkpoint: Checkpoint
    guard: LoopGuard
    feed: FeedProgress | None
    attempts: Attempts
    is_too_old: bool = False
    note: str | None = None
    refused_after: int | None = None
    failed_at: Checkpoint | None = None
    pages: int = 0
    items: int = 0

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


def begin(run: ScanContext, start: Start) -> Scan:
    """Decide where a scan begins."""
    request, now, feed = run.request, run.clock.now(), FEEDS.get(start.partition.surface)
    checkpoint = plan_scan(
        start.partition,
        start.last,
        run_id=run.beginning.run_id,
        resumed_runs=run.beginning.resumed,
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
        Attempts(request.page_size),
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
    scan_id, run_id, kind = run.new_id(), run.beginning.run_id, run.request.kind
    scan.checkpoint = Checkpoint(scan.partition, scan_id, run_id, now, now, run_kind=kind, known_seq=known_seq)
    scan.guard = LoopGuard.after(None)
    scan.feed = None if scan.feed is None else FeedProgress()
    scan.attempts.failures.clear()
    scan.is_too_old = False
    scan.note = note


Ending = ApiError | Deferred | RunStopped | RequestsSpent


async def end_scan(run: ScanContext, scan: Scan, error: Ending) -> Outcome:
    """Land the outcome of an error. A key or a permission that is missing stops the run, or its media scans."""
    outcome = outcome_of(error, run, scan)
    if isinstance(error, Deferred):
        until = error.resume_after
        facts = {**scan.about, "code": outcome.error_code, **(error.error.facts if error.error else {})}
        facts["resume_after"] = until
        _log.info("%s: deferred; cooldown until %s UTC", scan.partition, f"{until:%F %T}", extra=facts)
    page = abandoned = None
    if isinstance(error, ApiError):
        failure = error.failure
        page = keep_failure(run, scan, failure)
        if failure.disposition is Disposition.STOP:
            run.stop_media.set(failure)
            if failure.code != SCOPE_DENIED or scan.partition == CATALOGUE:
                run.stop.set(failure)
        # A checkpoint without pages is not stored; the one before the restart is.
        dead = scan.checkpoint if scan.checkpoint.pages else scan.failed_at
        if dead and (failure.disposition is Disposition.RESTART or failure.code.startswith("cursor_")):
            abandoned = dead.abandon(run_id=outcome.run_id, at=outcome.ended_at)
    await run.land(PageCommit(page, abandoned, (outcome,)))
    return outcome


def outcome_of(error: Ending, run: ScanContext, scan: Scan) -> Outcome:
    """Return the outcome of a scan that an error ended (API 7)."""
    if isinstance(error, RequestsSpent):
        return _outcome(run, scan, OutcomeKind.DEFERRED, error_code=REQUEST_BUDGET, detail=str(error))
    if isinstance(error, Deferred):
        told = {"error_code": "rate_limited", "detail": "A cooldown from an earlier run is still active."}
        about = told if error.error is None else _described(error.error)
        return _outcome(run, scan, OutcomeKind.DEFERRED, resume_after=error.resume_after, **about)
    return _outcome(run, scan, OutcomeKind(error.failure.outcome), **_described(error.failure))


def ended(run: ScanContext, scan: Scan, checkpoint: Checkpoint, response: Response) -> Outcome:
    """Return the outcome of a scan that reached its end."""
    if checkpoint.is_closed:
        broken = None
        if checkpoint.known_seq is not None and checkpoint.order_broken_by is not None:
            broken = "The posts are not listed newest first, so all of them were fetched."
        return done(run, scan, checkpoint, join(" ", (scan.note, broken)) or None)
    code, what = ITEMS_REJECTED, "items have no id that gramhouse knows, or are not JSON"
    if scan.partition == CATALOGUE:
        code, what = ACCOUNTS_REJECTED, "accounts are malformed"
    message = f"{checkpoint.rejected:,} of {checkpoint.items:,} {what}"
    error = client_error(response.operation, code, message, correlation_id=response.correlation_id)
    _log.warning("%s: %s", scan.partition, error.failure, extra={**scan.about, **error.failure.facts})
    return outcome_of(error, run, scan)


def _described(failure: Failure) -> dict[str, Any]:
    return {
        "error_code": failure.code,
        "http_status": failure.status,
        "correlation_id": failure.correlation_id,
        "detail": failure.message,
    }


def keep_failure(run: ScanContext, scan: Scan, error: Failure) -> ReceivedPage | None:
    """Log an error; if a page could not be parsed, return what to land: its body goes to quarantine."""
    _log.warning("%s: %s", scan.partition, error, extra={**scan.about, **error.facts})
    if error.body is None:
        return None
    return ReceivedPage(
        partition=scan.partition,
        run_id=run.beginning.run_id,
        scan_id="",
        page=scan.checkpoint.pages + 1,
        received_at=run.clock.now(),
        correlation_id=error.correlation_id,
        body=error.body,
    )


def done(run: ScanContext, scan: Scan, checkpoint: Checkpoint, detail: str | None) -> Outcome:
    """Return the outcome of a scan that is closed at a checkpoint."""
    return _outcome(run, scan, _DONE_AS[checkpoint.state], detail=detail)


def _outcome(run: ScanContext, scan: Scan, kind: OutcomeKind, detail: str | None = None, **about: object) -> Outcome:
    if (smaller := scan.smaller_pages) is not None:
        detail = f"{detail.rstrip('.')}. {smaller}" if detail else smaller
    return Outcome(
        partition=scan.partition,
        run_id=run.beginning.run_id,
        kind=kind,
        started_at=scan.began,
        ended_at=run.clock.now(),
        pages=scan.pages,
        items=scan.items,
        detail=detail,
        **about,  # type: ignore[arg-type]
    )
