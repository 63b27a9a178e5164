"""Scans an account's feeds, or the catalogue: page after page, each landed with its checkpoint before the next one."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from connectors.source.endpoints import ApiRequest, Response, accounts_request, feed_request
from connectors.source.errors import ApiError, Deferred, Disposition, client_error
from connectors.source.pagination import gets_further
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.retry import fetch_with_retry
from flows.engine.concurrency import RunStopped
from flows.engine.scan import (
    Ending,
    RequestsSpent,
    Scan,
    ScanContext,
    Start,
    begin,
    done,
    end_scan,
    ended,
    keep_failure,
    scan_again,
)
from models.api import MediaPage
from models.checkpoint import ScanState
from models.feeds import FEEDS
from models.incremental import FullReason, Post, read_page
from models.media_page import CursorFault
from models.page_commit import PageCommit, ReceivedPage, ScopeCooldown
from models.page_items import identities
from models.partition import CATALOGUE
from models.runs import CACHED_ANSWER, Outcome

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class AccountScan:
    """The scans of an account that are `left` in a run; `scan` is under way. Another process can continue it."""

    budget: RateLimitBudget
    left: list[Start]
    scan: Scan | None = None


Ended = Callable[[Outcome], None]
ScanAccount = Callable[[ScanContext, AccountScan, Ended], Coroutine[Any, Any, None]]


async def scan_account(run: ScanContext, account: AccountScan, ended: Ended, *, lost: str | None = None) -> None:
    """Scan what is left of an account, and call `ended` with each outcome. If it raises, `account` can be continued.

    One surface after the other: both are one rate-limit scope, which must not have concurrent requests, and whose
    cooldown applies to both (API 4.2). With `lost`, the reason why workers lost the account, nothing is scanned.
    """
    while scan := _next(run, account):
        if lost is None:
            outcome = await scan_partition(run, scan, account.budget)
        else:
            outcome = await end_scan(run, scan, client_error(scan.operation, "worker_lost", lost))
        ended(outcome)
        account.scan = None
    run.progress.accounts_done += 1


def _next(run: ScanContext, account: AccountScan) -> Scan | None:
    """Return the scan that is under way, or begin the next one; None if none is left."""
    if account.scan is None and account.left:
        account.scan = begin(run, account.left.pop(0))
    return account.scan


async def scan_partition(
    run: ScanContext,
    scan: Scan,
    budget: RateLimitBudget,
    *,
    on_page: Callable[[Response], None] = lambda _: None,
) -> Outcome:
    """Scan to the last page or to known posts; land every page with its checkpoint, and the outcome, which is returned.

    `on_page` is called with each page that has landed. Raises only errors of `land` and `bounds`, and CancelledError.
    """
    if scan.checkpoint.is_closed:
        earlier = done(run, scan, scan.checkpoint, "Scanned by the run that this one resumes.")
        await run.land(PageCommit(outcomes=(earlier,)))
        return earlier
    while True:
        try:
            async with aclosing(_pages(run, scan, budget)) as pages:
                async for response in pages:
                    ending = await _land_page(run, scan, response)
                    on_page(response)
                    if isinstance(ending, ApiError):
                        raise ending
                    if ending is not None:
                        return ending
            # Newer items are on pages that the old scan had passed already.
            started = f"{scan.checkpoint.started_at:%Y-%m-%d}"
            scan_again(run, scan, f"An old scan, started {started}, was abandoned; scanned again from the first page.")
        except (ApiError, Deferred, RunStopped, RequestsSpent) as error:
            if _restarts(scan, error):
                scan.refused_after = scan.checkpoint.items
                run.progress.restarted += 1
                _log.info("%s: cursor refused; scanning again from the first page", scan.partition, extra=scan.about)
                note = "The cursor was refused; scanned again from the first page."
            elif isinstance(error, ApiError) and _cannot_continue(scan, error):
                if (unreadable := keep_failure(run, scan, error.failure)) is not None:
                    await run.land(PageCommit(unreadable))
                note = f"An old scan could not be continued ({error}); scanned again from the first page."
            else:
                return await end_scan(run, scan, _unfinishable(scan, error))
            scan.failed_at = scan.checkpoint
            scan_again(run, scan, note)


def _cannot_continue(scan: Scan, error: ApiError) -> bool:
    """Return whether an old scan, which would be repeated anyway, failed at its cursor, which may never work again."""
    failure = error.failure
    return scan.is_too_old and failure.disposition is not Disposition.STOP and failure.outcome != "denied"


def _restarts(scan: Scan, error: Exception) -> bool:
    """Return whether a scan whose cursor was refused begins again: if there was one, and as long as it gets further."""
    is_refused = isinstance(error, ApiError) and error.failure.disposition is Disposition.RESTART
    return is_refused and scan.checkpoint.cursor is not None and gets_further(scan.checkpoint.items, scan.refused_after)


def _unfinishable(scan: Scan, error: Ending) -> Ending:
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


async def _pages(run: ScanContext, scan: Scan, budget: RateLimitBudget) -> AsyncGenerator[Response, None]:
    """Yield the pages that are left; each must have landed before the next one is requested."""
    is_media = scan.partition != CATALOGUE
    stop = run.stop_media if is_media else run.stop

    def check(seconds: float = 0.0) -> None:
        stop.check()
        run.bounds(seconds)

    @asynccontextmanager
    async def slot() -> AsyncIterator[None]:
        async with run.slots.requests.one(scan.checkpoint.pages) if is_media else nullcontext():
            await run.pacer.turn(run.clock, partial(stop.sleep, run.clock), check)
            run.progress.requests += 1
            run.progress.retries += bool(scan.attempts.failures)
            if run.progress.requests == run.request.max_requests:
                # Scans that sleep go on, and `check` ends them.
                run.stop_media.wake()
            try:
                yield
            except ApiError as error:
                if error.is_limit or error.failure.disposition is not Disposition.RETRY:
                    run.answered(budget, limited=error.is_limit)
                raise
            run.answered(budget, limited=False)

    async def sleep(seconds: float) -> None:
        check(seconds)
        await (sleep_without_slot(run, seconds) if is_media else stop.sleep(run.clock, seconds))

    while scan.checkpoint.state is ScanState.SCANNING:
        yield await fetch_with_retry(
            run.send,
            partial(_request, scan),
            scan.attempts,
            budget,
            clock=run.clock,
            random=run.random,
            slot=slot,
            sleep=sleep,
            on_wait=partial(_start_cooldown, run),
            is_limit_of_key=lambda error: error.is_limit and run.pacer.rate.is_limited(run.clock.monotonic()),
            about=scan.about,
            host=(run.request.base_url or "").partition("://")[2],
        )


async def sleep_without_slot(run: ScanContext, seconds: float) -> None:
    """Release the slot of a media scan for a sleep, which ends early if these scans end."""
    run.progress.waiting += 1
    try:
        async with run.slots.release_slot():
            await run.stop_media.sleep(run.clock, seconds)
    finally:
        run.progress.waiting -= 1


def _request(scan: Scan, limit: int) -> ApiRequest:
    partition, cursor = scan.partition, scan.checkpoint.cursor
    if partition == CATALOGUE:
        return accounts_request(cursor, limit)
    return feed_request(FEEDS[partition.surface], scan.start.listed_as, cursor, limit)


async def _start_cooldown(run: ScanContext, scope: str, resume_after: datetime) -> None:
    """Land a cooldown before waiting for it, so that it survives a kill."""
    run.progress.cooldowns[scope] = resume_after
    await run.land(PageCommit(cooldown=ScopeCooldown(scope, resume_after, run.clock.now())))


async def _land_page(run: ScanContext, scan: Scan, response: Response) -> Outcome | ApiError | None:
    """Land a page with the checkpoint after it. Return the scan's outcome, landed with its last page, or None.

    If the page does not show how the scan continues, it lands without a checkpoint, and the error is returned.
    """
    page, now = response.page, run.clock.now()
    posts = run.read_posts(page.body) if isinstance(page, MediaPage) else ()
    received = ReceivedPage(
        partition=scan.partition,
        run_id=run.beginning.run_id,
        scan_id=scan.checkpoint.scan_id,
        page=scan.checkpoint.pages + 1,
        received_at=now,
        correlation_id=response.correlation_id,
        body=page.received,
    )
    try:
        _follow(scan, response, posts)
    except ApiError as error:
        await _land(run, scan, page.items, PageCommit(received))
        return error
    feed = scan.feed
    if feed is not None:
        feed = read_page(
            feed,
            posts,
            known=scan.start.known,
            older_than=scan.checkpoint.started_at - run.request.lookback,
            received_at=now,
        )
    checkpoint = scan.checkpoint.advance(
        run_id=run.beginning.run_id,
        next_cursor=page.next_cursor,
        items=page.items,
        # An item that is not JSON is null in the body, so that it is a post without an id.
        rejected=sum(post.media_id is None for post in posts) or len(page.rejected),
        token_expired=scan.start.token_expired,
        at=now,
        repeated_pages=scan.guard.repeated,
        empty_pages=scan.guard.empty,
        feed=feed,
        # After a full scan that was due, the next one is due after a whole interval.
        full_share=1.0 if feed is not None and scan.start.full is FullReason.DUE else None,
    )
    outcome = None
    if checkpoint.state is not ScanState.SCANNING and not scan.is_too_old:
        outcome = ended(run, scan, checkpoint, response)
        outcome = replace(outcome, pages=outcome.pages + 1, items=outcome.items + page.items)
    await _land(run, scan, page.items, PageCommit(received, checkpoint, (outcome,) if outcome else ()))
    scan.checkpoint, scan.feed = checkpoint, feed
    return outcome


def _follow(scan: Scan, response: Response, posts: Sequence[Post]) -> None:
    """Raise ApiError if a page does not show how the scan continues, or what the service has now."""
    page = response.page
    if response.is_cached:
        why = "a cache answered, not the service: the answer has an Age, or the correlation id of an earlier one"
        raise client_error(response.operation, CACHED_ANSWER, why, correlation_id=response.correlation_id)
    if isinstance(page, MediaPage) and (fault := page.cursor_fault) is not None and not _may_end(scan, fault):
        raise client_error(response.operation, fault.code, fault.message, correlation_id=response.correlation_id)
    of_items = identities(page.body, posts) if isinstance(page, MediaPage) else [one.id for one in page.accounts]
    scan.guard.follow(response, [*of_items, *(record.payload for record in page.rejected)])


def _may_end(scan: Scan, fault: CursorFault) -> bool:
    """Return whether the list may end with a page without a cursor: if no page of it had one, now or last time."""
    last = scan.start.last
    return fault.may_end and not scan.checkpoint.had_cursor and (last is None or not last.had_cursor)


async def _land(run: ScanContext, scan: Scan, items: int, commit: PageCommit) -> None:
    await run.land(commit)
    scan.pages += 1
    scan.items += items
    run.progress.pages += 1
    run.progress.items += items
