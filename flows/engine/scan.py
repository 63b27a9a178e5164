"""A scan between two pages: where it begins and continues, and its outcome. flows/engine/pages.py requests the pages.

The same code runs in the process that writes the warehouse and on workers: `ScanContext` has what differs.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from connectors.source.errors import ApiError, Deferred, Disposition, Failure, client_error
from connectors.source.pagination import LoopGuard, gets_further
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
from models.incremental import FeedProgress, Post, read_page
from models.landing import PageCommit
from models.mapping import Mapping
from models.partition import Partition
from models.runs import CACHED_ANSWER, Outcome, OutcomeKind, began_within
from models.selection import ChosenAccount

_DONE_AS = {ScanState.COMPLETE: OutcomeKind.COMPLETE, ScanState.RECENT: OutcomeKind.RECENT}


@dataclass(frozen=True, slots=True)
class ScanContext:
    """What the scans of a run use: `send` makes a request, `land` returns when a commit is durable.

    `resumed` are the runs that it resumes, `mapping` is that of the warehouse.
    """

    request: RunRequest
    run_id: str
    resumed: tuple[str, ...]
    send: Send
    requests: Requests
    land: Callable[[PageCommit], Awaitable[None]]
    mapping: Mapping
    clock: Clock
    random: Callable[[], float]
    new_id: Callable[[], str]
    progress: Progress


@dataclass(slots=True)
class Scan:
    """A scan between two pages: all that the next page needs. Another process can continue it.

    Of the catalogue it has no `account`. It may stop at `known` posts, which the scan that the landing `known_seq`
    closed had seen. `had_cursor`: the list had more than one page when it was last scanned. For `full_share` see
    Checkpoint. `guard`, `feed` and `attempts` are the state between pages; `pages` and `items` count what this run
    landed. `note` becomes the detail of its outcome. `refused_after` counts the items up to the last cursor that the
    API refused. A scan that `may_repeat` has no outcome if it fails for a passing reason: the run scans it once more.
    """

    partition: Partition
    account: ChosenAccount | None
    began: datetime
    checkpoint: Checkpoint
    attempts: Attempts
    known: frozenset[str] = frozenset()
    known_seq: int | None = None
    full_share: float | None = None
    had_cursor: bool = False
    may_repeat: bool = False
    guard: LoopGuard = field(default_factory=LoopGuard)
    feed: FeedProgress | None = None
    pages: int = 0
    items: int = 0
    is_too_old: bool = False
    note: str | None = None
    refused_after: int | None = None

    @property
    def about(self) -> dict[str, object]:
        """Return the fields of log records about it."""
        username = self.account and self.account.username
        return {"partition": str(self.partition), "account": self.partition.account_id or None, "username": username}


@dataclass(slots=True)
class AccountScan:
    """The scans of an account: those `left`, and those that `failed` for a passing reason. They share a wait `budget`.

    `done` counts its outcomes by kind, and their pages. A worker leaves it for so many seconds of `pause`.
    """

    budget: RateLimitBudget
    left: list[Scan]
    failed: list[Scan] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    pause: float = 0.0


def begin_scan(
    run: ScanContext,
    partition: Partition,
    last: Checkpoint | None,
    *,
    seen: frozenset[str] = frozenset(),
    account: ChosenAccount | None = None,
    known: frozenset[str] = frozenset(),
    known_seq: int | None = None,
    is_due: bool = False,
) -> Scan:
    """Decide where a scan begins: `last` is the partition's checkpoint, `seen` what an unfinished scan has received.

    A full scan that `is_due` is followed by another one after a whole interval. The others are as in Scan.
    """
    fresh, within = _fresh(run, partition, known_seq), run.request.within
    checkpoint = plan_scan(fresh, last, resumed_runs=run.resumed, within=within)
    attempts = Attempts(run.request.settings.page_size)
    scan = Scan(partition, account, fresh.started_at, checkpoint, attempts, known, known_seq)
    scan.full_share = 1.0 if is_due else None
    scan.had_cursor = last is not None and last.had_cursor
    _continue_at(scan, checkpoint, seen)
    if checkpoint.is_closed:
        scan.note = "Scanned by the run that this one resumes."
    elif checkpoint.pages:
        scan.note = f"Resumed after {checkpoint.pages} pages."
        scan.is_too_old = not began_within(checkpoint.started_at, now=scan.began, within=within)
    return scan


def begin_again(run: ScanContext, scan: Scan, note: str) -> None:
    """Begin a scan again at its first page, because of what `note` says."""
    # After a violation of the order, the scan must be full.
    known_seq = scan.known_seq if scan.checkpoint.order_broken_by is None else None
    _continue_at(scan, _fresh(run, scan.partition, known_seq))
    scan.attempts.failures.clear()
    scan.is_too_old = False
    scan.note = note


def _fresh(run: ScanContext, partition: Partition, known_seq: int | None) -> Checkpoint:
    now, kind = run.clock.now(), run.request.options.kind
    return Checkpoint(partition, run.new_id(), run.run_id, now, now, run_kind=kind, known_seq=known_seq)


def _continue_at(scan: Scan, checkpoint: Checkpoint, seen: frozenset[str] = frozenset()) -> None:
    """Let a scan continue at a checkpoint, up to which it has `seen` these ids."""
    scan.checkpoint = checkpoint
    scan.guard = LoopGuard.after(checkpoint.cursor, checkpoint.repeated_pages, checkpoint.empty_pages)
    # Without the items that an earlier run saw, a listing that repeats itself would never end.
    scan.guard.remember(seen)
    feed = FEEDS.get(scan.partition.surface)
    # If pages have shifted, the next one begins with items that an earlier run received.
    scan.feed = checkpoint.feed(seen) if feed is not None and feed.may_be_ordered else None


def advance(run: ScanContext, scan: Scan, response: Response, posts: Sequence[Post], at: datetime) -> None:
    """Move a scan behind a page that was received at a time.

    Raises ApiError if the page does not show how the scan continues, or what the service has now.
    """
    page, operation, trace = response.page, response.operation, response.correlation_id
    if response.is_cached:
        why = "a cache answered, not the service: the answer has an Age, or the correlation id of an earlier one"
        raise client_error(operation, CACHED_ANSWER, why, correlation_id=trace)
    if scan.account is not None:
        # The list may end with a page without a cursor if no page of it had one, now or last time.
        may_end = not scan.had_cursor and not scan.checkpoint.had_cursor
        if (fault := page.cursor_fault) is not None and not (fault.may_end and may_end):
            raise client_error(operation, fault.code, fault.message, correlation_id=trace)
        records = [post.media_id or raw.decode() for post, raw in zip(posts, page.records, strict=True)]
        rejected = sum(post.media_id is None for post in posts)
    else:
        records = [*(one.id for one in page.accounts), *(one.payload for one in page.rejected)]
        rejected = len(page.rejected)
    scan.guard.follow(response, records)
    if scan.feed is not None:
        older_than = scan.checkpoint.started_at - run.request.lookback
        scan.feed = read_page(scan.feed, posts, known=scan.known, older_than=older_than, received_at=at)
    scan.checkpoint = scan.checkpoint.advance(
        run_id=run.run_id,
        next_cursor=page.next_cursor,
        items=len(page.records),
        rejected=rejected,
        token_expired=scan.account is not None and scan.account.expired,
        at=at,
        repeated_pages=scan.guard.repeated,
        empty_pages=scan.guard.empty,
        feed=scan.feed,
        full_share=scan.full_share,
    )


def why_again(scan: Scan, failure: Failure | None) -> str | None:
    """Return why a scan begins again after a failure, or None if it ends; without one it waits for too long."""
    if failure is None:
        return None
    checkpoint, is_refused = scan.checkpoint, failure.disposition is Disposition.RESTART
    if is_refused and checkpoint.cursor is not None and gets_further(checkpoint.items, scan.refused_after):
        return "The cursor was refused; scanned again from the first page."
    # An old scan would be repeated anyway, and its cursor may never work again.
    if scan.is_too_old and failure.disposition is not Disposition.STOP and failure.outcome != "denied":
        return f"An old scan could not be continued ({failure}); scanned again from the first page."
    return None


def abandon(run: ScanContext, scan: Scan) -> Checkpoint | None:
    """Return the checkpoint of a scan that no run continues, unless nothing of it is stored."""
    if not scan.checkpoint.pages or scan.checkpoint.state is not ScanState.SCANNING:
        return None
    return scan.checkpoint.abandon(run_id=run.run_id, at=run.clock.now())


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
        about, items = describe_failure(error.failure), scan.checkpoint.items
        if error.failure.disposition is Disposition.RESTART and scan.refused_after is not None:
            about["detail"] = (
                f"{error.failure.message.rstrip('.')}: the scan cannot finish: its cursor was refused after"
                f" {scan.refused_after:,} items, and now it got to {items:,}"
            )
        return _outcome(run, scan, **about)
    earlier = {"error_code": "rate_limited", "detail": "A cooldown from an earlier run is still active."}
    about = earlier if error.error is None else describe_failure(error.error)
    return _outcome(run, scan, **about | {"kind": OutcomeKind.DEFERRED, "resume_after": error.resume_after})


def closed_outcome(run: ScanContext, scan: Scan) -> Outcome:
    """Return the outcome of a scan that is closed at its checkpoint."""
    checkpoint, broken = scan.checkpoint, None
    if checkpoint.known_seq is not None and checkpoint.order_broken_by is not None:
        broken = "The posts are not listed newest first, so all of them were fetched."
    return _outcome(run, scan, kind=_DONE_AS[checkpoint.state], detail=join(" ", (scan.note, broken)) or None)


def _outcome(run: ScanContext, scan: Scan, *, detail: str | None, **about: Any) -> Outcome:  # noqa: ANN401 - fields of an outcome
    if (reason := scan.attempts.reduced_by) is not None:
        smaller = f"Pages of {scan.attempts.limit} items were requested, because larger ones failed ({reason})."
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
