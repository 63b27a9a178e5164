"""Scans one feed, or the catalogue, page by page. Each page lands with its checkpoint before the next is requested."""

import logging
from collections.abc import Callable

from connectors.source.endpoints import ApiRequest, accounts_request, feed_request
from connectors.source.errors import ApiError, Deferred, Disposition, Failure, client_error, is_transient
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.responses import Response
from flows.engine.requests import StopRun
from flows.engine.scan import (
    AccountScan,
    Scan,
    ScanContext,
    abandon,
    advance,
    begin_again,
    closed_outcome,
    failed_outcome,
    why_again,
)
from models.api import Page
from models.checkpoint import ScanState
from models.feeds import FEEDS
from models.item import read_posts
from models.landing import PageCommit, ReceivedPage, ScopeCooldown
from models.partition import CATALOGUE
from models.runs import ACCOUNTS_REJECTED, ITEMS_REJECTED, Outcome

_log = logging.getLogger(__name__)


async def scan_account(run: ScanContext, account: AccountScan) -> None:
    """Scan what is left of an account. Raises as `scan_partition` does.

    One surface after the other: both are one rate-limit scope, which must not have concurrent requests, and whose
    cooldown applies to both (API 4.2).
    """
    while account.left:
        scan = account.left[0]
        outcome = await scan_partition(run, scan, account.budget)
        account.left.pop(0)
        if outcome is None:
            account.failed.append(scan)
        else:
            account.done.update({outcome.kind: 1, "pages": outcome.pages})


async def scan_partition(
    run: ScanContext, scan: Scan, budget: RateLimitBudget, on_page: Callable[[Page], None] | None = None
) -> Outcome | None:
    """Scan to the last page or to known posts; call `on_page` with each page when it has landed.

    Return the outcome, which has landed, or None if the scan failed for a passing reason and may be repeated. Raises
    StopRun if its error, whose outcome has landed, ends other scans, too, and RequestsSpent.
    """
    outcome: Outcome | None
    if scan.checkpoint.is_closed:
        outcome = closed_outcome(run, scan)
        await run.land(PageCommit(outcomes=(outcome,)))
        return outcome
    while True:
        try:
            while scan.checkpoint.state is ScanState.SCANNING:
                outcome = await _land_page(run, scan, await _fetch(run, scan, budget), on_page)
            if outcome is not None:
                return outcome
            # Newer items are on pages that the old scan had passed already.
            started = f"{scan.checkpoint.started_at:%Y-%m-%d}"
            note = f"An old scan, started {started}, was abandoned; scanned again from the first page."
        except (ApiError, Deferred) as error:
            failure, unreadable = _log_error(run, scan, error)
            again = why_again(scan, failure)
            is_refused = failure is not None and failure.disposition is Disposition.RESTART
            if again is None:
                if scan.may_repeat and failure is not None and is_transient(failure.code):
                    scan.may_repeat = False
                    await run.land(PageCommit(unreadable))
                    return None
                is_dead = is_refused or (failure is not None and failure.code.startswith("cursor_"))
                outcome = failed_outcome(run, scan, error)
                await run.land(PageCommit(unreadable, abandon(run, scan) if is_dead else None, (outcome,)))
                if failure is not None and failure.disposition is Disposition.STOP:
                    raise StopRun(failure) from None
                return outcome
            await run.land(PageCommit(unreadable, abandon(run, scan)))
            if is_refused:
                scan.refused_after = scan.checkpoint.items
                run.progress.restarted += 1
            note = again
        begin_again(run, scan, note)


async def _fetch(run: ScanContext, scan: Scan, budget: RateLimitBudget) -> Response:
    """Request the page that is due, with the waits and retries that its attempts and the scope's budget allow.

    Raises the last ApiError when it gives up, Deferred when the scope's wait exceeds its budget, StopRun, and
    RequestsSpent. The caller must not request other pages of the scope meanwhile.
    """
    while True:
        await budget.wait(run.clock, run.requests.sleep)
        try:
            async with run.requests.one(budget, is_retry=bool(scan.attempts.failures)):
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
    facts = {**scan.about, **failure.facts, "retry_in": round(seconds, 1)}
    name = f" ({facts['username']})" if facts["username"] else ""
    what = f"{scan.partition}{name} at {host}" if host else f"{scan.partition}{name}"
    _log.info("%s: %s; retry in %.1f s", what, failure, seconds, extra=facts)


def _request(scan: Scan) -> ApiRequest:
    cursor, limit = scan.checkpoint.cursor, scan.attempts.limit
    if scan.account is None:
        return accounts_request(cursor, limit)
    return feed_request(FEEDS[scan.partition.surface], scan.account.listed_as, cursor, limit)


async def _land_page(
    run: ScanContext, scan: Scan, response: Response, on_page: Callable[[Page], None] | None
) -> Outcome | None:
    """Land a page with its checkpoint, and the outcome if the scan is closed; return that.

    Raises ApiError if the scan cannot continue after it, or has rejected most records. If the page does not show how
    it continues, it lands without a checkpoint.
    """
    page, outcome, error = response.page, None, None
    received = _received(run, scan, page.received, response.correlation_id, scan.checkpoint.scan_id)
    posts = read_posts(page.records, run.mapping) if scan.account is not None else ()
    scan.pages += 1
    scan.items += len(page.records)
    try:
        advance(run, scan, response, posts, received.received_at)
    except ApiError as fault:
        error = fault
    if error is None and scan.checkpoint.is_closed and not scan.is_too_old:
        outcome = closed_outcome(run, scan)
    await run.land(PageCommit(received, scan.checkpoint if error is None else None, (outcome,) if outcome else ()))
    run.progress.pages += 1
    run.progress.items += len(page.records)
    if on_page is not None:
        on_page(page)
    if scan.checkpoint.state is ScanState.ABANDONED:
        error = _most_rejected(scan, response)
    if error is not None:
        raise error
    return outcome


def _most_rejected(scan: Scan, response: Response) -> ApiError:
    code, what = ITEMS_REJECTED, "items have no id that gramhouse knows, or are not JSON"
    if scan.partition == CATALOGUE:
        code, what = ACCOUNTS_REJECTED, "accounts are malformed"
    message = f"{scan.checkpoint.rejected:,} of {scan.checkpoint.items:,} {what}"
    return client_error(response.operation, code, message, correlation_id=response.correlation_id)


def _received(run: ScanContext, scan: Scan, body: bytes, correlation_id: str | None, scan_id: str) -> ReceivedPage:
    """Return the page that is due as it lands; without a scan its body goes to quarantine."""
    return ReceivedPage(
        scan.partition, run.run_id, scan_id, scan.checkpoint.pages + 1, run.clock.now(), correlation_id, body
    )


def _log_error(run: ScanContext, scan: Scan, error: ApiError | Deferred) -> tuple[Failure | None, ReceivedPage | None]:
    """Log an error; return its failure, and the page if it is one that could not be parsed: it goes to quarantine."""
    if isinstance(error, Deferred):
        facts = {"code": "rate_limited", **(error.error.facts if error.error else {})}
        until, facts = f"{error.resume_after:%F %T}", {**scan.about, **facts, "resume_after": error.resume_after}
        _log.info("%s: deferred; cooldown until %s UTC", scan.partition, until, extra=facts)
        return None, None
    failure = error.failure
    _log.warning("%s: %s", scan.partition, failure, extra={**scan.about, **failure.facts})
    if failure.body is None:
        return failure, None
    return failure, _received(run, scan, failure.body, failure.correlation_id, "")
