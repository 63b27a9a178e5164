"""Scans one feed, or the catalogue, page by page. Each page lands with its checkpoint before the next is requested."""

import logging
import sys
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from datetime import datetime

from connectors.source.endpoints import ApiRequest, accounts_request, feed_request
from connectors.source.errors import ApiError, Deferred, Disposition, Failure, client_error, is_transient
from connectors.source.pagination import gets_further
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.responses import Response
from flows.engine.requests import StopRun, Turn
from flows.engine.scan import (
    Scan,
    ScanContext,
    closed_outcome,
    ended_outcome,
    failed_outcome,
    received_page,
    scan_again,
)
from models.api import AccountPage, MediaPage
from models.checkpoint import ScanState
from models.feeds import FEEDS
from models.incremental import FullReason, Post, read_page
from models.media_page import CursorFault
from models.page_commit import PageCommit, ReceivedPage, ScopeCooldown
from models.page_items import identities
from models.partition import CATALOGUE
from models.runs import CACHED_ANSWER

# A scan with this many more pages goes first: otherwise a long one would remain at the end, alone.
_LONG = 8

# Accounts whose scans send requests in turn: several for each request in flight, because others land a page meanwhile.
_TOGETHER = 64

_FIRST: Turn = (-sys.maxsize, 0)

_log = logging.getLogger(__name__)

Commits = AsyncGenerator[tuple[PageCommit, AccountPage | MediaPage | None], None]


async def scan_pages(run: ScanContext, scan: Scan, budget: RateLimitBudget) -> Commits:
    """Scan to the last page or to known posts: yield what is to land, and the page in it.

    Each commit must have landed before the next one is asked for. The last one has the outcome of the scan, unless it
    failed for a passing reason and may be repeated. Raises StopRun if its error, whose outcome has landed, ends other
    scans, too, and RequestsSpent.
    """
    if scan.checkpoint.is_closed:
        scan.note = "Scanned by the run that this one resumes."
        yield PageCommit(outcomes=(closed_outcome(run, scan),)), None
        return
    while True:
        try:
            while scan.checkpoint.state is ScanState.SCANNING:
                response = await _fetch(run, scan, budget)
                page = received_page(run, scan, response.page.received, response.correlation_id, is_readable=True)
                posts = run.read_posts(response.page.body) if isinstance(response.page, MediaPage) else ()
                scan.pages += 1
                scan.items += response.page.items
                try:
                    _follow(scan, response, posts)
                except ApiError:
                    # It does not show how the scan continues, so it lands without a checkpoint.
                    yield PageCommit(page), response.page
                    _count_landed(run, response)
                    raise
                _advance(run, scan, response, posts, page.received_at)
                is_last = scan.checkpoint.state is not ScanState.SCANNING and not scan.is_too_old
                outcomes = (ended_outcome(run, scan, response),) if is_last else ()
                yield PageCommit(page, scan.checkpoint, outcomes), response.page
                _count_landed(run, response)
                if is_last:
                    return
        except (ApiError, Deferred) as error:
            unreadable = _log_error(run, scan, error)
            if (again := _why_again(run, scan, error)) is None:
                yield _end(run, scan, _unfinishable(scan, error), unreadable), None
                if isinstance(error, ApiError) and error.failure.disposition is Disposition.STOP:
                    raise StopRun(error.failure) from None
                return
            yield PageCommit(unreadable), None
            note = again
            scan.failed_at = scan.checkpoint
        else:
            # Newer items are on pages that the old scan had passed already.
            started = f"{scan.checkpoint.started_at:%Y-%m-%d}"
            note = f"An old scan, started {started}, was abandoned; scanned again from the first page."
        scan_again(run, scan, note)


def _count_landed(run: ScanContext, response: Response) -> None:
    run.progress.pages += 1
    run.progress.items += response.page.items


async def _fetch(run: ScanContext, scan: Scan, budget: RateLimitBudget) -> Response:
    """Request the page that is due, with the waits and retries that its attempts and the scope's budget allow.

    Raises the last ApiError when it gives up, Deferred when the scope's wait exceeds its budget, StopRun, and
    RequestsSpent. The caller must not request other pages of the scope meanwhile.
    """
    # Accounts that were listed together take turns.
    in_turn = -(scan.checkpoint.pages // _LONG), scan.start.number // _TOGETHER
    turn: Turn = _FIRST if scan.partition == CATALOGUE else in_turn
    while True:
        await budget.wait(run.clock, run.requests.sleep)
        try:
            async with run.requests.one(budget, turn, is_retry=bool(scan.attempts.failures)):
                response = await run.send(_request(scan))
        except ApiError as error:
            failure, is_asked_when = error.failure, error.retry_after is not None
            if run.requests.is_outage and failure.disposition is Disposition.RETRY and not is_asked_when:
                # The next request waits for its turn to ask, and this one is no try.
                continue
            of_key = error.is_limit and run.requests.is_limited()
            verdict = scan.attempts.decide(error, run.random, of_key=of_key)
            if verdict.whole_scope:
                await _start_cooldown(run, budget, verdict.delay, failure)
            if not verdict.retries:
                raise
        else:
            scan.attempts.failures.clear()
            return response
        _log_retry(run, scan, failure, verdict.delay)
        if not verdict.whole_scope:
            await run.requests.sleep(verdict.delay)


async def _start_cooldown(run: ScanContext, budget: RateLimitBudget, seconds: float, cause: Failure) -> None:
    """Begin a cooldown; it lands before it is waited for, so that it survives a kill."""
    monotonic = run.clock.monotonic()
    budget.start_cooldown(seconds, monotonic, cause)
    resume_after = budget.resume_after(run.clock.now(), monotonic)
    run.progress.cooldowns[budget.scope] = resume_after
    await run.land(PageCommit(cooldown=ScopeCooldown(budget.scope, resume_after, run.clock.now())))


def _log_retry(run: ScanContext, scan: Scan, failure: Failure, seconds: float) -> None:
    host = (run.request.base_url or "").partition("://")[2]
    name = f" ({scan.start.username})" if scan.start.username else ""
    facts = {**scan.about, **failure.facts, "retry_in": round(seconds, 1)}
    what = f"{scan.partition}{name} at {host}" if host else f"{scan.partition}{name}"
    _log.info("%s: %s; retry in %.1f s", what, failure, seconds, extra=facts)


def _request(scan: Scan) -> ApiRequest:
    partition, cursor, limit = scan.partition, scan.checkpoint.cursor, scan.attempts.limit
    if partition == CATALOGUE:
        return accounts_request(cursor, limit)
    return feed_request(FEEDS[partition.surface], scan.start.listed_as, cursor, limit)


def _follow(scan: Scan, response: Response, posts: Sequence[Post]) -> None:
    """Raise ApiError if a page does not show how the scan continues, or what the service has now."""
    page = response.page
    if response.is_cached:
        why = "a cache answered, not the service: the answer has an Age, or the correlation id of an earlier one"
        raise client_error(response.operation, CACHED_ANSWER, why, correlation_id=response.correlation_id)
    if isinstance(page, MediaPage) and (fault := page.cursor_fault) is not None and not _may_end(scan, fault):
        raise client_error(response.operation, fault.code, fault.message, correlation_id=response.correlation_id)
    if isinstance(page, MediaPage):
        records = identities(page.body, posts)
    else:
        records = [*(one.id for one in page.accounts), *(one.payload for one in page.rejected)]
    scan.guard.follow(response, records)


def _may_end(scan: Scan, fault: CursorFault) -> bool:
    """Return whether the list may end with a page without a cursor: if no page of it had one, now or last time."""
    last = scan.start.last
    return fault.may_end and not scan.checkpoint.had_cursor and (last is None or not last.had_cursor)


def _advance(run: ScanContext, scan: Scan, response: Response, posts: Sequence[Post], at: datetime) -> None:
    """Move the checkpoint behind a page that was received at a time."""
    page, start = response.page, scan.start
    if scan.feed is not None:
        older_than = scan.checkpoint.started_at - run.request.lookback
        scan.feed = read_page(scan.feed, posts, known=start.known, older_than=older_than, received_at=at)
    scan.checkpoint = scan.checkpoint.advance(
        run_id=run.run_id,
        next_cursor=page.next_cursor,
        items=page.items,
        rejected=sum(post.media_id is None for post in posts) if isinstance(page, MediaPage) else len(page.rejected),
        token_expired=start.token_expired,
        at=at,
        repeated_pages=scan.guard.repeated,
        empty_pages=scan.guard.empty,
        feed=scan.feed,
        # After a full scan that was due, the next one is due after a whole interval.
        full_share=1.0 if scan.feed is not None and start.full is FullReason.DUE else None,
    )


def _why_again(run: ScanContext, scan: Scan, error: ApiError | Deferred) -> str | None:
    """Return why a scan begins again after an error, or None if it ends."""
    if isinstance(error, Deferred):
        return None
    failure, checkpoint = error.failure, scan.checkpoint
    is_refused = failure.disposition is Disposition.RESTART and checkpoint.cursor is not None
    if is_refused and gets_further(checkpoint.items, scan.refused_after):
        scan.refused_after = checkpoint.items
        run.progress.restarted += 1
        return "The cursor was refused; scanned again from the first page."
    # An old scan would be repeated anyway, and its cursor may never work again.
    if scan.is_too_old and failure.disposition is not Disposition.STOP and failure.outcome != "denied":
        return f"An old scan could not be continued ({error}); scanned again from the first page."
    return None


def _unfinishable(scan: Scan, error: ApiError | Deferred) -> ApiError | Deferred:
    """Return the error of a scan that ends, and that its cursors' short life keeps from ever reaching its end."""
    items, refused_after = scan.checkpoint.items, scan.refused_after
    if refused_after is None or gets_further(items, refused_after):
        return error
    why = f"the scan cannot finish: its cursor was refused after {refused_after:,} items, and now it got to {items:,}"
    if isinstance(error, Deferred) and items:
        return client_error(scan.operation, "cursor_expires", f"{why}, where it would wait again")
    if isinstance(error, ApiError) and error.failure.disposition is Disposition.RESTART:
        return ApiError(replace(error.failure, message=f"{error.failure.message.rstrip('.')}: {why}"))
    return error


def _log_error(run: ScanContext, scan: Scan, error: ApiError | Deferred) -> ReceivedPage | None:
    """Log an error; if it is a page that could not be parsed, return it: it goes to quarantine."""
    if isinstance(error, Deferred):
        facts = {"code": "rate_limited", **(error.error.facts if error.error else {})}
        until, facts = f"{error.resume_after:%F %T}", {**scan.about, **facts, "resume_after": error.resume_after}
        _log.info("%s: deferred; cooldown until %s UTC", scan.partition, until, extra=facts)
        return None
    failure = error.failure
    _log.warning("%s: %s", scan.partition, failure, extra={**scan.about, **failure.facts})
    if failure.body is None:
        return None
    return received_page(run, scan, failure.body, failure.correlation_id, is_readable=False)


def _end(run: ScanContext, scan: Scan, error: ApiError | Deferred, unreadable: ReceivedPage | None) -> PageCommit:
    """Return what lands when an error ends a scan: its outcome, unless the scan is repeated."""
    abandoned = None
    if isinstance(error, ApiError):
        failure = error.failure
        if scan.may_repeat and is_transient(failure.code):
            return PageCommit(unreadable)
        # A checkpoint without pages is not stored; the one before the restart is.
        dead = scan.checkpoint if scan.checkpoint.pages else scan.failed_at
        if dead and (failure.disposition is Disposition.RESTART or failure.code.startswith("cursor_")):
            abandoned = dead.abandon(run_id=run.run_id, at=run.clock.now())
    return PageCommit(unreadable, abandoned, (failed_outcome(run, scan, error),))
