"""Scans feeds and the catalogue page by page. Each page lands with its checkpoint before the next is requested."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from connectors.source.errors import ApiError, Deferred, Disposition, Failure, rule_of
from connectors.source.messages import Response
from connectors.source.waits import Attempts, RateLimitBudget
from connectors.warehouse.queries.progress import find_seen_ids
from flows.engine.run import Run
from flows.engine.scan import Scan
from models.checkpoint import Checkpoint, Landing, ScanState, plan_scan
from models.feeds import CATALOGUE, Partition
from models.item import read_posts
from models.runs import ACCOUNTS_REJECTED, ITEMS_REJECTED, Outcome, OutcomeKind
from models.selection import ChosenAccount

_log = logging.getLogger(__name__)

# Seconds before the scans of an account that failed for a passing reason are made once more.
_PAUSE = 60.0


async def begin_scan(
    run: Run,
    partition: Partition,
    last: Checkpoint | None,
    budget: RateLimitBudget,
    account: ChosenAccount | None = None,
    *,
    known: frozenset[str] = frozenset(),
    known_seq: int | None = None,
    is_due: bool = False,
) -> Scan:
    """Decide where a scan begins; `last` is the partition's checkpoint, `budget` that of its scope.

    It may stop at `known` posts, which the scan that the landing `known_seq` closed had seen. A full scan that `is_due`
    is followed by another one after a whole interval.
    """
    now = run.clock.now()
    fresh = Checkpoint(
        partition,
        run.resources.new_id(),
        run.run_id,
        now,
        now,
        run_kind=run.request.options.kind,
        known_seq=known_seq,
        full_share=1.0 if is_due else None,
        had_expired_token=account is not None and account.is_expired,
    )
    checkpoint = plan_scan(fresh, last, resumed_runs=run.resumed, within=run.request.within)
    scan = Scan(account, fresh, checkpoint, Attempts(run.request.settings.page_size), budget, known)
    scan.had_cursor = last is not None and last.had_cursor
    scan.may_repeat = account is not None
    is_resumed = checkpoint.pages > 0 and not checkpoint.is_closed
    scan.continue_at(checkpoint, await run.resources.warehouse.read(find_seen_ids, checkpoint) if is_resumed else ())
    return scan


def is_too_old(run: Run, scan: Scan) -> bool:
    """Return whether newer items are on pages that a scan had passed before it was interrupted."""
    return scan.fresh.started_at - scan.checkpoint.started_at > run.request.within


async def scan_account(run: Run, scans: Sequence[Scan]) -> Counter[str]:
    """Make the scans of an account; return the number of their outcomes by kind, and of pages. Raises RequestsEnded.

    One after the other: all are one rate-limit scope, which must not have concurrent requests, and whose cooldown
    applies to all (API 4.2). What fails for a passing reason is scanned once more, after a pause.
    """
    done = Counter[str]()
    failed = list[Scan]()
    for scan in scans:
        if (outcome := await scan_partition(run, scan)) is None:
            failed.append(scan)
        else:
            done.update({outcome.kind: 1, "pages": outcome.pages})
    for scan in failed:
        await run.requests.sleep(scan, _PAUSE)
        if (outcome := await scan_partition(run, scan)) is not None:
            done.update({outcome.kind: 1, "pages": outcome.pages})
    return done


async def scan_partition(run: Run, scan: Scan) -> Outcome | None:
    """Scan to the last page or to known posts.

    Return the outcome, which has landed, or None if the scan failed for a passing reason and may be repeated. Raises
    RequestsEnded.
    """
    if scan.checkpoint.is_closed:
        outcome = scan.outcome(run.run_id, run.clock.now())
        await run.land(Landing(scan.partition, run.run_id, outcomes=(outcome,)))
        return outcome
    while True:
        try:
            while not scan.checkpoint.is_closed:
                if (closed := await _next_page(run, scan)) is not None:
                    return closed
            why = f"An old scan, started {scan.checkpoint.started_at:%Y-%m-%d}, was abandoned"
        except (ApiError, Deferred) as error:
            unreadable = _log_error(run, scan, error)
            if isinstance(error, Deferred) or (reason := _why_again(run, scan, error.failure)) is None:
                return await _give_up(run, scan, error, unreadable)
            why = reason
            await run.land(replace(unreadable, checkpoint=_abandon(run, scan)))
            if error.failure.disposition is Disposition.RESTART:
                scan.refused_after = scan.checkpoint.items
                run.progress.restarted += 1
        # After a violation of the order, the scan must be full.
        known_seq = scan.fresh.known_seq if scan.checkpoint.order_broken_by is None else None
        now, scan_id = run.clock.now(), run.resources.new_id()
        scan.continue_at(replace(scan.fresh, scan_id=scan_id, started_at=now, updated_at=now, known_seq=known_seq))
        scan.attempts.failures.clear()
        scan.note = f"{why}; scanned again from the first page."


async def _next_page(run: Run, scan: Scan) -> Outcome | None:
    """Request and land the page that is due, and return the outcome if that ends the scan.

    After a failure that may pass it waits, and lands nothing. Raises ApiError for others, and as `_land_page`.
    """
    await run.requests.wait_for_scope(scan)
    try:
        async with run.requests.pages_ahead:
            return await _land_page(run, scan, await run.requests.send(scan))
    except ApiError as error:
        await run.requests.wait_after(error, scan)
        return None


def _why_again(run: Run, scan: Scan, failure: Failure) -> str | None:
    """Return why a scan begins again after a failure, or None if it ends."""
    items, before = scan.checkpoint.items, scan.refused_after
    # Unless each cursor expires before the list ends.
    gets_further = scan.checkpoint.cursor is not None and (before is None or items > before)
    if failure.disposition is Disposition.RESTART and gets_further:
        return "The cursor was refused"
    # An old scan would be repeated anyway, and its cursor may never work again.
    is_final = failure.disposition is Disposition.STOP or failure.outcome is OutcomeKind.DENIED
    if is_too_old(run, scan) and not is_final:
        return f"An old scan could not be continued ({failure})"
    return None


async def _give_up(run: Run, scan: Scan, error: ApiError | Deferred, unreadable: Landing) -> Outcome | None:
    """End a scan because of an error, and all others if they would fail, too; return as `scan_partition` does."""
    failure = error.failure if isinstance(error, ApiError) else None
    if scan.may_repeat and run.repeats_left and failure is not None and rule_of(failure.code).is_transient:
        scan.may_repeat = False
        run.repeats_left -= 1
        await run.land(unreadable)
        return None
    outcome, abandoned = scan.outcome(run.run_id, run.clock.now(), error), None
    if failure is not None and (failure.disposition is Disposition.RESTART or failure.code.startswith("cursor_")):
        abandoned = _abandon(run, scan)
    await run.land(replace(unreadable, checkpoint=abandoned, outcomes=(outcome,)))
    if failure is not None and failure.disposition is Disposition.STOP:
        run.requests.stop(failure)
    return outcome


def _abandon(run: Run, scan: Scan) -> Checkpoint | None:
    """Return the checkpoint of a scan that no run continues, unless nothing of it is stored."""
    if not scan.checkpoint.pages or scan.checkpoint.state is not ScanState.SCANNING:
        return None
    return scan.checkpoint.abandon(run.clock.now())


async def _land_page(run: Run, scan: Scan, response: Response) -> Outcome | None:
    """Land a page with its checkpoint, and the outcome if that ends the scan; return that.

    Raises ApiError if the scan cannot continue after it, or has rejected most records. If the page does not show how it
    continues, it lands without a checkpoint.
    """
    page, outcome, error = response.page, None, None
    received = _receive(run, scan, page.body, response.correlation_id, scan.checkpoint.scan_id)
    posts = read_posts(page.records, run.mapping) if scan.account is not None else ()
    scan.pages += 1
    scan.items += len(page.records)
    try:
        scan.follow(response, posts, lookback=run.request.lookback, at=received.received_at)
    except ApiError as fault:
        error = fault
    if error is None and scan.checkpoint.is_closed and not is_too_old(run, scan):
        outcome = scan.outcome(run.run_id, run.clock.now())
    checkpoint = scan.checkpoint if error is None else None
    await run.land(replace(received, checkpoint=checkpoint, outcomes=(outcome,) if outcome else ()))
    run.progress.pages += 1
    run.progress.items += len(page.records)
    if scan.on_page is not None:
        scan.on_page(page)
    if scan.checkpoint.state is ScanState.ABANDONED:
        code, what = ITEMS_REJECTED, "items have no id that gramhouse knows, or are not JSON"
        if scan.partition == CATALOGUE:
            code, what = ACCOUNTS_REJECTED, "accounts are malformed"
        message = f"{scan.checkpoint.rejected:,} of {scan.checkpoint.items:,} {what}"
        error = response.error(code, message)
    if error is not None:
        raise error
    return outcome


def _receive(run: Run, scan: Scan, body: bytes, correlation_id: str | None, scan_id: str = "") -> Landing:
    """Return the page that is due as it lands; without a scan its body goes to quarantine."""
    number, now = scan.checkpoint.pages + 1, run.clock.now()
    return Landing(scan.partition, run.run_id, scan_id, number, now, correlation_id, body)


def _log_error(run: Run, scan: Scan, error: ApiError | Deferred) -> Landing:
    """Log an error; return what lands with it: a page that could not be parsed, which goes to quarantine."""
    nothing = Landing(scan.partition, run.run_id)
    if isinstance(error, Deferred):
        cause = error.error.facts if error.error else {}
        facts = {**scan.about, "code": "rate_limited", **cause, "resume_after": error.resume_after}
        _log.info("%s: deferred; cooldown until %s UTC", scan.partition, f"{error.resume_after:%F %T}", extra=facts)
        return nothing
    failure = error.failure
    _log.warning("%s: %s", scan.partition, failure, extra={**scan.about, **failure.facts})
    return nothing if failure.body is None else _receive(run, scan, failure.body, failure.correlation_id)
