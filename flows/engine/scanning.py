"""The steps of a run that scan: they list the accounts, and scan their feeds, a batch of accounts at a time.

Each page lands with its checkpoint before the next one is requested.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from connectors.source.errors import ApiError, Deferred, Disposition
from connectors.source.messages import Response
from connectors.source.waits import Attempts
from connectors.state.inbox import read_checkpoints
from connectors.warehouse.queries.progress import (
    find_known_items,
    find_listed_accounts,
    find_seen_ids,
    read_closed_scans,
    read_statuses,
)
from flows.engine.choosing import start_scans, why_skipped
from flows.engine.dispatcher import RequestsEnded
from flows.engine.run import Batch, Run
from flows.engine.scan import After, Scan
from models.api import Page
from models.checkpoint import Landing, ScanState
from models.feeds import CATALOGUE, Partition
from models.files import WarehouseError
from models.item import read_posts
from models.runs import Outcome
from models.selection import CATALOGUE_ACCOUNT, ChosenAccount

_log = logging.getLogger(__name__)

# Accounts whose progress and known items are read at once. Those of later accounts would only take memory.
_AT_ONCE = 50

# Seconds before the scans of an account that failed for a passing reason are made once more, at most.
_PAUSE = 60.0


async def list_accounts(run: Run) -> Outcome | None:
    """Page through the account catalogue, with a cursor checkpoint for each page; note accounts whose token expired.

    The accounts of a page go into batches at once. Return the outcome, or None if the run may make no more requests.
    """
    outcome = None
    [[scan]] = await run.warehouse.do(_begin_scans, run, [CATALOGUE_ACCOUNT], run.clock.now())
    if scan.checkpoint.pages and not scan.is_old:
        # Pages that this scan landed earlier are not requested again, but this run scans their accounts as well.
        found = await run.warehouse.do(run.files.query, find_listed_accounts, scan.checkpoint)
        run.add(ChosenAccount(listed_as, status, run.request.surfaces) for listed_as, status in found)
    await run.dispatcher.open_account()
    with suppress(RequestsEnded):
        outcome = await _scan_partition(run, scan)
    run.dispatcher.close_account()
    run.end_list()
    return outcome


async def _add_listed(run: Run, page: Page) -> None:
    """Add the accounts of a page to those that are scanned; of rejected records, those that are known."""
    surfaces = run.request.surfaces
    run.add(ChosenAccount(one.id, one.status, surfaces, one.ig_username) for one in page.accounts)
    listed_as = {record.account_id.lower(): record.account_id for record in page.rejected if record.account_id}
    if listed_as:
        statuses = await run.warehouse.do(run.files.query, read_statuses, listed_as)
        run.add(ChosenAccount(listed_as[key], status, surfaces) for key, status in statuses.items())


async def scan_batch(run: Run, batch: Batch) -> Counter[str]:
    """Scan the feeds of a batch's accounts; land an outcome for each partition. Return their number by kind, and pages.

    A rate limit of an account lets only that account wait, as long as Retry-After says. Accounts with an expired token
    are skipped, unless a setting lets them be scanned.
    """
    due, skipped = list[ChosenAccount](), list[tuple[Partition, Mapping[str, Any]]]()
    for account in batch.accounts:
        if (about := why_skipped(account, scan_expired=run.request.settings.scan_expired)) is None:
            due.append(account)
        else:
            skipped += [(feed, about) for feed in account.feeds]
            run.progress.accounts_done += 1
    await run.settle(skipped)
    done = Counter[str](about["kind"] for _, about in skipped)
    async with fail_fast_group() as group:
        for first in range(0, len(due), _AT_ONCE):
            if run.dispatcher.has_ended:
                break
            some = due[first : first + _AT_ONCE]
            # Other batches wait meanwhile, so that accounts whose turn is later cost no memory.
            async with run.dispatcher.opening:
                for scans in await run.warehouse.do(_begin_scans, run, some, run.clock.now()):
                    await run.dispatcher.open_account()
                    scanning = group.create_task(_scan_account(run, scans, done))
                    scanning.add_done_callback(lambda _: run.dispatcher.close_account())
    return done


def _begin_scans(run: Run, accounts: Sequence[ChosenAccount], now: datetime) -> list[list[Scan]]:
    """Return the scans of each account, or of the catalogue, which depend on what is known of each feed."""
    files, request, ids = run.files, run.request, [account.account_id for account in accounts]
    last = files.state.read(read_checkpoints, ids, request.options.kind)
    closed = files.query(read_closed_scans, ids)
    starts = start_scans(
        request, accounts, last, closed, resumed=run.resumed, began_at=run.began_at, now=now,
        run_id=run.run_id, new_id=run.resources.new_id,
    )  # fmt: skip
    recent = {feed: closed[feed] for feed, start in starts.items() if start.why_full is None}
    known = files.query(find_known_items, recent, older_than=run.began_at - request.lookback) if recent else {}

    scans = []
    for account in accounts:
        budget = run.budget(account, now)
        of_account = []
        for feed in account.feeds:
            start = starts[feed]
            checkpoint = start.checkpoint
            scan = Scan(
                account, start.fresh, checkpoint, Attempts(request.settings.page_size), budget,
                known=known.get(feed, frozenset()),
                had_cursor=start.had_cursor,
                is_old=now - checkpoint.started_at > request.within,
                may_repeat=feed != CATALOGUE,
            )  # fmt: skip
            is_resumed = checkpoint.pages > 0 and not checkpoint.is_closed
            scan.continue_at(checkpoint, files.query(find_seen_ids, checkpoint) if is_resumed else ())
            of_account.append(scan)
        scans.append(of_account)
    return scans


async def _scan_account(run: Run, scans: Sequence[Scan], done: Counter[str]) -> None:
    """Scan the feeds of an account, until the run may make no more requests; count their outcomes, and pages.

    One after the other: all are one rate-limit scope, which must not have concurrent requests, and whose cooldown
    applies to all (API 4.2). What fails for a passing reason is scanned once more, after a pause.
    """
    with suppress(RequestsEnded):
        while scans:
            failed = []
            for scan in scans:
                if (outcome := await _scan_partition(run, scan)) is None:
                    failed.append(scan)
                else:
                    done.update({outcome.kind: 1, "pages": outcome.pages})
            if scans := failed:
                await run.dispatcher.sleep(scans[0], min(_PAUSE, run.request.settings.max_wait))
        run.progress.accounts_done += 1


async def _scan_partition(run: Run, scan: Scan) -> Outcome | None:
    """Scan to the last page or to known posts.

    Return the outcome, which has landed, or None if the scan failed for a passing reason and is to be repeated. Raises
    RequestsEnded.
    """
    if scan.checkpoint.is_closed:
        return await _land_outcome(run, scan)
    while True:
        try:
            while not scan.checkpoint.is_closed:
                async with run.dispatcher.page(scan) as response:
                    if (closed := await _land_page(run, scan, response)) is not None:
                        return closed
            why = f"An old scan, started {scan.checkpoint.started_at:%Y-%m-%d}, was abandoned"
        except Deferred as deferred:
            return await _land_outcome(run, scan, deferred)
        except ApiError as error:
            after = scan.decide(error)
            outcome = await _land_error(run, scan, error, after)
            if not after.again:
                return outcome
            why = after.again
        # After a violation of the order, the scan must be full.
        known_seq = scan.fresh.known_seq if scan.checkpoint.order_broken_by is None else None
        now, scan_id = run.clock.now(), run.resources.new_id()
        scan.continue_at(replace(scan.fresh, scan_id=scan_id, started_at=now, updated_at=now, known_seq=known_seq))
        scan.attempts.failures.clear()
        scan.is_old, scan.note = False, f"{why}; scanned again from the first page."


async def _land_outcome(run: Run, scan: Scan, deferred: Deferred | None = None) -> Outcome:
    """Land and return the outcome of a scan that an earlier run closed, or that is deferred."""
    outcome = scan.outcome(run.clock.now(), deferred)
    if deferred is not None:
        until = deferred.resume_after
        facts = {"code": "rate_limited", **(deferred.error.facts if deferred.error else {}), "resume_after": until}
        _log.info("%s: deferred; cooldown until %s UTC", scan.partition, f"{until:%F %T}", extra=scan.about | facts)
    await run.land(Landing(scan.partition, run.run_id, outcomes=(outcome,)))
    return outcome


async def _land_error(run: Run, scan: Scan, error: ApiError, after: After) -> Outcome | None:
    """Log and land an error of a scan, and its outcome, unless it is scanned again; return that.

    A page that could not be parsed goes to quarantine. Ends all other scans if they would fail, too.
    """
    now, outcome = run.clock.now(), None
    _log.warning("%s: %s", scan.partition, error, extra=scan.about | error.facts)
    landing = Landing(scan.partition, run.run_id)
    if error.body is not None:
        landing = _receive(run, scan, error.body, error.correlation_id)
    if after.abandons:
        abandoned = replace(scan.checkpoint, updated_at=now, cursor=None, state=ScanState.ABANDONED)
        landing = replace(landing, checkpoint=abandoned)
    if after.is_later:
        scan.may_repeat = False
    elif not after.again:
        outcome = scan.outcome(now, error)
        landing = replace(landing, outcomes=(outcome,))
    elif error.rule.disposition is Disposition.RESTART:
        scan.refused_after = scan.checkpoint.items
        run.progress.restarted += 1
    await run.land(landing)
    if error.rule.disposition is Disposition.STOP:
        run.dispatcher.stop(error)
    return outcome


async def _land_page(run: Run, scan: Scan, response: Response) -> Outcome | None:
    """Land a page with its checkpoint, and the outcome if that ends the scan; return that.

    Raises ApiError if the scan cannot continue after it, or has rejected most records. If the page does not show how it
    continues, it lands without a checkpoint.
    """
    page, outcome, error = response.page, None, None
    landing = _receive(run, scan, page.body, response.correlation_id, scan.checkpoint.scan_id)
    posts = read_posts(page.records, run.files.mapping) if scan.feed is not None else ()
    scan.pages += 1
    scan.items += len(page.records)
    run.landed[scan.partition] = {"pages": scan.pages, "items": scan.items}
    try:
        scan.follow(response, posts, at=landing.received_at)
    except ApiError as fault:
        error = fault
    else:
        landing = replace(landing, checkpoint=scan.checkpoint)
        if scan.checkpoint.is_closed and not scan.is_old:
            outcome = scan.outcome(run.clock.now())
            landing = replace(landing, outcomes=(outcome,))
    await run.land(landing)
    run.progress.pages += 1
    run.progress.items += len(page.records)
    if scan.feed is None:
        await _add_listed(run, page)
    if error is not None:
        raise error
    scan.check_rejected(response)
    return outcome


def _receive(run: Run, scan: Scan, body: bytes, correlation_id: str | None, scan_id: str = "") -> Landing:
    """Return the page that is due as it lands; without a scan its body goes to quarantine."""
    number, now = scan.checkpoint.pages + 1, run.clock.now()
    return Landing(scan.partition, run.run_id, scan_id, number, now, correlation_id, body)


@asynccontextmanager
async def fail_fast_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks in a group: the first one that fails cancels the others, and its exception is raised, not a group.

    If several fail, an error of the warehouse is raised, as it must be fixed first.
    """
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as errors:
        error: Exception = errors.subgroup(WarehouseError) or errors
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        # The cause is kept; the group adds no information.
        raise error from error.__cause__
