"""The steps of a run that scan: they list the accounts, and scan their feeds, a batch of accounts at a time.

Each page lands with its checkpoint before the next one is requested.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from collections.abc import Mapping as Map
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import chain
from typing import Any

from connectors.source.errors import ApiError, Deferred, Disposition, rule_of
from connectors.source.messages import CATALOGUE_SCOPE, Response, account_scope
from connectors.source.waits import Attempts, RateLimitBudget
from connectors.state.inbox import read_checkpoints
from connectors.warehouse.queries.progress import (
    find_known_items,
    find_listed_accounts,
    find_seen_ids,
    read_closed_scans,
    read_statuses,
)
from connectors.warehouse.storage.errors import WarehouseError
from flows.engine.plan import why_skipped
from flows.engine.requests import RequestsEnded
from flows.engine.run import Batch, Run
from flows.engine.scan import Scan
from models.api import Page
from models.checkpoint import Checkpoint, FullReason, Landing, ScanState, plan_scan, why_full
from models.feeds import CATALOGUE, Partition, media
from models.item import read_posts
from models.runs import Outcome, OutcomeKind
from models.selection import ChosenAccount

_log = logging.getLogger(__name__)

# Accounts whose progress and known items are read at once. Those of later accounts would only take memory.
_AT_ONCE = 50

# Seconds before the scans of an account that failed for a passing reason are made once more.
_PAUSE = 60.0


async def list_accounts(run: Run) -> Outcome | None:
    """Page through the account catalogue, with a cursor checkpoint for each page; note accounts whose token expired.

    The accounts of a page go into batches at once. Return the outcome, or None if the run may make no more requests.
    """
    last = (await run.warehouse.do(run.files.state.read, read_checkpoints, [""])).get(CATALOGUE)
    if run.request.options.accept_removals:
        # The user confirms the present catalogue, not what an interrupted run listed of it.
        last = None
    scan, outcome = await _begin(run, CATALOGUE, last, run.budget(CATALOGUE_SCOPE)), None
    if scan.checkpoint.pages and not _is_too_old(run, scan):
        # Pages that this scan landed earlier are not requested again, but this run scans their accounts as well.
        found = await run.warehouse.do(run.files.query, find_listed_accounts, scan.checkpoint)
        run.add(ChosenAccount(listed_as, status, run.request.surfaces) for listed_as, status in found)
    with suppress(RequestsEnded):
        outcome = await _scan_partition(run, scan)
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
    done, due = Counter[str](), list[ChosenAccount]()
    skipped = defaultdict[tuple[OutcomeKind, str, str], list[Partition]](list)
    for account in batch.accounts:
        if (why := why_skipped(account, scan_expired=run.request.settings.scan_expired)) is None:
            due.append(account)
        else:
            skipped[why] += [media(account.account_id, surface) for surface in account.surfaces]
            run.progress.accounts_done += 1
    for (kind, code, detail), partitions in skipped.items():
        await run.settle(partitions, kind=kind, error_code=code, detail=detail)
        done[kind] += len(partitions)
    async with fail_fast_group() as group:
        async for scans in _begin_scans(run, due):
            # Acquired before the task is created, so that waiting accounts cost no memory.
            await run.requests.open_accounts.acquire()
            scanning = group.create_task(_scan_account(run, scans, done))
            scanning.add_done_callback(lambda _: run.requests.open_accounts.release())
    return done


async def _begin_scans(run: Run, due: Sequence[ChosenAccount]) -> AsyncIterator[Sequence[Scan]]:
    """Yield the scans of each account, which depend on what is known of each feed."""
    for first in range(0, len(due), _AT_ONCE):
        if run.requests.are_over:
            return
        some = {one: [media(one.account_id, surface) for surface in one.surfaces] for one in due[first:][:_AT_ONCE]}
        last, why, seqs, known = await run.warehouse.do(_read_progress, run, [*chain.from_iterable(some.values())])
        for account, feeds in some.items():
            budget = run.budget(account_scope(account.account_id))
            yield [
                await _begin(
                    run, each, last.get(each), budget, account, known.get(each, frozenset()),
                    known_seq=seqs.get(each),
                    # The next full scan follows after a whole interval.
                    full_share=1.0 if why[each] is FullReason.DUE else None,
                    had_expired_token=account.is_expired,
                )
                for each in feeds
            ]  # fmt: skip


def _read_progress(run: Run, feeds: Sequence[Partition]) -> tuple[Map[Partition, Any], ...]:
    """Return what is known of feeds: the last checkpoint, why a scan is full; if it may be recent, where, and posts."""
    files, ids, request = run.files, {feed.account_id for feed in feeds}, run.request
    closed = files.query(read_closed_scans, ids)
    why = {feed: why_full(closed.get(feed), request.full_refresh_every, at=run.began_at) for feed in feeds}
    recent = {feed: closed[feed] for feed in feeds if why[feed] is None}
    known = files.query(find_known_items, recent, older_than=run.began_at - request.lookback) if recent else {}
    last = files.state.read(read_checkpoints, ids, request.options.kind)
    return last, why, {feed: scan.seq for feed, scan in recent.items()}, known


async def _begin(
    run: Run,
    partition: Partition,
    last: Checkpoint | None,
    budget: RateLimitBudget,
    account: ChosenAccount | None = None,
    known: frozenset[str] = frozenset(),
    **facts: Any,  # noqa: ANN401 - fields of a checkpoint
) -> Scan:
    """Decide where a scan begins; `last` is the partition's checkpoint, `budget` that of its scope."""
    request, now = run.request, run.clock.now()
    fresh = Checkpoint(partition, run.resources.new_id(), run.run_id, now, now, run_kind=request.options.kind, **facts)
    checkpoint = plan_scan(fresh, last, resumed_runs=run.resumed, within=request.within)
    scan = Scan(
        account,
        fresh,
        checkpoint,
        Attempts(request.settings.page_size),
        budget,
        known,
        had_cursor=last is not None and last.had_cursor,
        may_repeat=account is not None,
    )
    is_resumed = checkpoint.pages > 0 and not checkpoint.is_closed
    scan.continue_at(
        checkpoint, await run.warehouse.do(run.files.query, find_seen_ids, checkpoint) if is_resumed else ()
    )
    return scan


def _is_too_old(run: Run, scan: Scan) -> bool:
    """Return whether newer items are on pages that a scan had passed before it was interrupted."""
    return scan.fresh.started_at - scan.checkpoint.started_at > run.request.within


async def _scan_account(run: Run, scans: Sequence[Scan], done: Counter[str]) -> None:
    """Make the scans of an account, until the run may make no more requests; count their outcomes, and pages.

    One after the other: all are one rate-limit scope, which must not have concurrent requests, and whose cooldown
    applies to all (API 4.2). What fails for a passing reason is scanned once more, after a pause.
    """
    with suppress(RequestsEnded):
        failed = [scan for scan in scans if not await _scan_once(run, scan, done)]
        for scan in failed:
            await run.requests.sleep(scan, _PAUSE)
            await _scan_once(run, scan, done)
        run.progress.accounts_done += 1


async def _scan_once(run: Run, scan: Scan, done: Counter[str]) -> bool:
    outcome = await _scan_partition(run, scan)
    if outcome is not None:
        done.update({outcome.kind: 1, "pages": outcome.pages})
    return outcome is not None


async def _scan_partition(run: Run, scan: Scan) -> Outcome | None:
    """Scan to the last page or to known posts.

    Return the outcome, which has landed, or None if the scan failed for a passing reason and is to be repeated. Raises
    RequestsEnded.
    """
    if scan.checkpoint.is_closed:
        finished = scan.outcome(run.run_id, run.clock.now())
        await run.land(Landing(scan.partition, run.run_id, outcomes=(finished,)))
        return finished
    while True:
        try:
            while not scan.checkpoint.is_closed:
                async with run.requests.page(scan) as response:
                    if (closed := await _land_page(run, scan, response)) is not None:
                        return closed
            why = f"An old scan, started {scan.checkpoint.started_at:%Y-%m-%d}, was abandoned"
        except (ApiError, Deferred) as error:
            why = _why_again(run, scan, error)
            outcome = await _land_error(run, scan, error, is_over=not why)
            if not why:
                return outcome
        # After a violation of the order, the scan must be full.
        known_seq = scan.fresh.known_seq if scan.checkpoint.order_broken_by is None else None
        now, scan_id = run.clock.now(), run.resources.new_id()
        scan.continue_at(replace(scan.fresh, scan_id=scan_id, started_at=now, updated_at=now, known_seq=known_seq))
        scan.attempts.failures.clear()
        scan.note = f"{why}; scanned again from the first page."


def _why_again(run: Run, scan: Scan, error: ApiError | Deferred) -> str:
    """Return why a scan begins again after an error; empty if it ends."""
    if isinstance(error, Deferred):
        return ""
    before = scan.refused_after
    # Unless each cursor expires before the list ends.
    gets_further = scan.checkpoint.cursor is not None and (before is None or scan.checkpoint.items > before)
    if error.rule.disposition is Disposition.RESTART and gets_further:
        return "The cursor was refused"
    # An old scan would be repeated anyway, and its cursor may never work again.
    is_final = error.rule.disposition is Disposition.STOP or error.rule.outcome is OutcomeKind.DENIED
    return f"An old scan could not be continued ({error})" if _is_too_old(run, scan) and not is_final else ""


async def _land_error(run: Run, scan: Scan, error: ApiError | Deferred, *, is_over: bool) -> Outcome | None:
    """Log and land an error of a scan, and the outcome, if it is over and is not repeated; return that.

    A page that could not be parsed goes to quarantine. Ends all other scans if they would fail, too.
    """
    now, landing, abandoned = run.clock.now(), Landing(scan.partition, run.run_id), None
    if isinstance(error, Deferred):
        cause = error.error.facts if error.error else {}
        facts = {**scan.about, "code": "rate_limited", **cause, "resume_after": error.resume_after}
        _log.info("%s: deferred; cooldown until %s UTC", scan.partition, f"{error.resume_after:%F %T}", extra=facts)
    else:
        _log.warning("%s: %s", scan.partition, error, extra={**scan.about, **error.facts})
        if error.body is not None:
            landing = _receive(run, scan, error.body, error.correlation_id)
        is_refused = error.rule.disposition is Disposition.RESTART
        is_useless = not is_over or is_refused or error.code.startswith("cursor_")
        if is_useless and scan.checkpoint.pages and scan.checkpoint.state is ScanState.SCANNING:
            abandoned = replace(scan.checkpoint, updated_at=now, cursor=None, state=ScanState.ABANDONED)
        if is_over and scan.may_repeat and rule_of(error.code).is_transient:
            scan.may_repeat = is_over = False
        elif is_refused and not is_over:
            scan.refused_after = scan.checkpoint.items
            run.progress.restarted += 1
    outcome = scan.outcome(run.run_id, now, error) if is_over else None
    await run.land(replace(landing, checkpoint=abandoned, outcomes=(outcome,) if outcome else ()))
    if isinstance(error, ApiError) and error.rule.disposition is Disposition.STOP:
        run.requests.stop(error)
    return outcome


async def _land_page(run: Run, scan: Scan, response: Response) -> Outcome | None:
    """Land a page with its checkpoint, and the outcome if that ends the scan; return that.

    Raises ApiError if the scan cannot continue after it, or has rejected most records. If the page does not show how it
    continues, it lands without a checkpoint.
    """
    page, outcome, error = response.page, None, None
    received = _receive(run, scan, page.body, response.correlation_id, scan.checkpoint.scan_id)
    posts = read_posts(page.records, run.files.mapping) if scan.account is not None else ()
    scan.pages += 1
    scan.items += len(page.records)
    try:
        scan.follow(response, posts, lookback=run.request.lookback, at=received.received_at)
    except ApiError as fault:
        error = fault
    if error is None and scan.checkpoint.is_closed and not _is_too_old(run, scan):
        outcome = scan.outcome(run.run_id, run.clock.now())
    checkpoint = scan.checkpoint if error is None else None
    await run.land(replace(received, checkpoint=checkpoint, outcomes=(outcome,) if outcome else ()))
    run.progress.pages += 1
    run.progress.items += len(page.records)
    if scan.account is None:
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
