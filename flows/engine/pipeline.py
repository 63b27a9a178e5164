"""The body of a run: scan, merge, evaluate the outcomes, publish. Plain async."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial

from connectors.source.errors import Failure
from connectors.warehouse.maintenance.changing_fields import one_field_changes_most
from connectors.warehouse.maintenance.future_times import repair_future_times
from connectors.warehouse.merge.account_removal import missing_accounts
from connectors.warehouse.merge.run_counts import RunCounts, of_runs
from connectors.warehouse.runs import ledger
from connectors.warehouse.runs.account_ids import listed_spellings
from connectors.warehouse.runs.closed_scans import full_scans_due
from connectors.warehouse.runs.failure_groups import FailureGroup, expired_accounts, failure_groups_of
from connectors.warehouse.runs.progress import cooldowns
from connectors.warehouse.runs.selection import chosen
from connectors.warehouse.runs.service import bind_service, check_service
from connectors.warehouse.schema.field_registry import adopt_mapping, read_mapping
from connectors.warehouse.schema.not_cast import values_not_cast
from connectors.warehouse.storage.errors import QueryError, WarehouseError, WarehouseUnusable, first_line
from flows.engine.accounts import ListedAccount
from flows.engine.batches import AccountBatcher
from flows.engine.concurrency import fail_fast_group
from flows.engine.run_context import RunContext, RunResources
from flows.engine.run_request import RunRequest
from flows.engine.scan import ScanContext, ScanOptions
from flows.engine.steady_clock import SteadyClock, steady_clock
from flows.engine.steps import DIRECT, Steps, all_listed, longest_waiting, open_run
from flows.engine.upkeep import delete_old, upload_refusal
from flows.reporting.progress import Progress
from flows.reporting.recording import STOPPED, recorded, short
from flows.reporting.run_report import NO_DATA, Data, RunReport, read_data
from flows.reporting.words import Say, count
from models.incremental import OVERDUE, Incremental, least_age
from models.page_items import post_reader
from models.runs import RunState, RunWarning, run_state
from models.selection import NothingChosen, Selection

_log = logging.getLogger(__name__)

# The warning of a run that did not replace the file at the snapshot's path, which is not a snapshot of its warehouse.
NOT_REPLACED = "snapshot_not_replaced"


async def run_sync(
    request: RunRequest,
    resources: RunResources,
    *,
    steps: Steps = DIRECT,
    progress: Progress | None = None,
    say: Say = _log.info,
) -> RunReport:
    """Run one sync of everything that the key gives access to, or one backfill, and publish the result.

    Errors of the API become outcomes, never exceptions. Raises WarehouseUnusable, before the first request also because
    the clock is behind, and then OtherService; for a backfill also SelectionError and NothingChosen. A cancelled run is
    marked as interrupted.
    """
    warehouse, clock = resources.warehouse, await steady_clock(resources.warehouse, resources.clock)
    resources = replace(resources, clock=clock)
    began = clock.monotonic()
    is_current = await warehouse.transact(adopt_mapping, resources.mapping)
    # Pages that an earlier process landed are merged first, because this run reads the accounts listed there.
    unmerged = await warehouse.transact(ledger.unmerged)
    await warehouse.merge()
    await _check_service(request, resources)
    accounts = None if request.selection is None else await _choose(request.selection, resources)
    run = await _enter(request, resources, progress or Progress(), say)
    run.progress.run_id = run.run_id
    in_turn = request.max_requests is not None
    if resumed_runs := run.scans.options.resumed_runs:
        (last,) = await warehouse.transact(of_runs, resumed_runs[:1])
        say(_resuming(last))
    recording_run = recorded(
        request.snapshot,
        request.kind,
        now=clock.now,
        say=say,
        on_error=RunState.INTERRUPTED,
        run_id=run.run_id,
        selection=request.selected,
        progress=run.progress,
    )
    with recording_run as recording, open_run(run):
        try:
            async with fail_fast_group() as group:
                if accounts is not None:
                    all_listed(run, accounts)
                else:
                    listing = group.create_task(steps.list_accounts(run.run_id, request.surfaces))
                    if in_turn:
                        # If requests are limited, the accounts that have waited longest come first.
                        await listing
                        run.batcher.waiting = await longest_waiting(run, run.batcher.waiting)
                async for batch in run.batcher.batches():
                    scanning = group.create_task(steps.sync_batch(run.run_id, batch))
                    if in_turn:
                        await scanning
            await steps.merge(run.run_id)
            report = await _close_ledger(run, request, unmerged, clock)
        except asyncio.CancelledError:
            await _close(run, RunState.INTERRUPTED, detail=STOPPED)
            raise
        except Exception as error:
            # Interrupted, not failed, so that the next run resumes it. If the warehouse file itself failed, this write
            # fails as well, and the next run finds this one still marked as running.
            with suppress(WarehouseUnusable):
                await _close(run, RunState.INTERRUPTED, detail=short(error))
            raise
        await delete_old(request.keeping, warehouse, now=clock.now(), say=say)

        data = NO_DATA
        if not any(warning.code == NOT_REPLACED for warning in report.warnings):
            published = await steps.publish(run.run_id, request)
            report = replace(report, snapshot_bytes=published.snapshot_bytes, report=published.report)
            data = await _data(report, clock, say)
        report = replace(
            report,
            data=data,
            as_of=clock.now(),
            expired=await warehouse.transact(expired_accounts),
            mapping_pending=not is_current,
            seconds=clock.monotonic() - began,
        )
        stopped_by = report.stopped_by
        recording.end(
            report.state,
            error_code=stopped_by.code if stopped_by else None,
            detail=stopped_by.message if stopped_by else None,
        )
    return report


async def _data(report: RunReport, clock: SteadyClock, say: Say) -> Data:
    runs = [report.run_id, *report.resumed_runs]
    try:
        return await asyncio.to_thread(read_data, report.snapshot, runs, now=clock.now())
    except (WarehouseError, QueryError) as error:
        # For example, another program has opened it for writing since.
        say(f"The snapshot that was published cannot be read: {first_line(error)}")
        return NO_DATA


def _resuming(last: RunCounts) -> str:
    if last.state is RunState.INTERRUPTED:
        return f"Resuming interrupted run {last.run_id}; saved pages will not be fetched again."
    return f"Run {last.run_id} ended but was not published; its completed scans will not be repeated."


async def _check_service(request: RunRequest, resources: RunResources) -> None:
    if resources.base_url is not None:
        await resources.warehouse.transact(bind_service if request.rebind else check_service, resources.base_url)


async def _choose(selection: Selection, resources: RunResources) -> Sequence[ListedAccount]:
    found = await resources.warehouse.transact(chosen, selection, resources.page_size)
    if not found:
        only_failed = selection == Selection(failed=True, surfaces=selection.surfaces)
        message = f"Nothing to backfill: {'no unfinished scans' if only_failed else f'no accounts match {selection}'}."
        raise NothingChosen(message)
    spelled = await resources.warehouse.transact(listed_spellings)
    return [
        ListedAccount(
            account.account_id,
            account.expired,
            account.surfaces,
            spelled.get(account.account_id),
            ig_username=account.ig_username,
        )
        for account in found
    ]


async def _enter(request: RunRequest, resources: RunResources, progress: Progress, say: Say) -> RunContext:
    run_id, now = resources.new_id(), resources.clock.now()
    begin = partial(
        ledger.begin,
        now=now,
        within=request.within,
        version=request.version,
        selection=request.selected,
        reason=request.reason,
        base_url=resources.base_url,
        accept_removals=request.accept_removals,
    )
    resumed_runs = await resources.warehouse.transact(begin, run_id, request.kind)
    # Only after deciding which runs are resumed, because runs that began in the future must not be.
    await resources.warehouse.transact(repair_future_times, run_id, now=now)
    waits = await resources.warehouse.transact(cooldowns, now=now)
    options = ScanOptions(
        run_id=run_id,
        run_kind=request.kind,
        resumed_runs=resumed_runs,
        fresh_within=request.within,
        page_size=resources.page_size,
        max_requests=request.max_requests,
        host=(resources.base_url or "").partition("://")[2],
        mapping=resources.mapping,
        stored_mapping=await resources.warehouse.read(read_mapping),
        lookback=request.lookback,
        incremental=await _incremental(request, resources, now),
        policy=resources.policy,
    )
    scans = ScanContext(
        options,
        resources.send,
        resources.warehouse.land,
        post_reader(options.stored_mapping),
        resources.clock,
        resources.random,
        resources.new_id,
        resources.slots,
        progress,
    )
    batcher = AccountBatcher.in_turn() if request.max_requests is not None else AccountBatcher()
    return RunContext(scans, resources, now, waits, batcher, request.accept_removals, say)


async def _incremental(request: RunRequest, resources: RunResources, now: datetime) -> Incremental | None:
    """Return how the run decides between full and recent scans of posts; None: all are full."""
    if request.kind == "backfill" or request.mode == "full_refresh":
        return None
    due = await resources.warehouse.read(full_scans_due, now=now, every=request.full_refresh_every)
    return Incremental(now, request.full_refresh_every, least_age(due, request.full_refresh_budget))


async def _close_ledger(run: RunContext, request: RunRequest, unmerged: Sequence[str], clock: SteadyClock) -> RunReport:
    """Check that each scanned partition has its outcome in the ledger, and close the run. All pages must be merged."""
    warehouse, batcher, catalogue = run.resources.warehouse, run.batcher, request.selection is None
    outcomes = await warehouse.transact(ledger.tally, run.run_id)
    expected_outcomes = catalogue + batcher.expected_outcomes
    if outcomes.total != expected_outcomes:
        message = f"the ledger holds {outcomes.total} outcomes where {expected_outcomes} are due"
        raise AssertionError(message)
    stopped_by = run.scans.stop_media.failure
    missing = await warehouse.transact(missing_accounts) if catalogue else None
    changing = (
        await warehouse.transact(one_field_changes_most, run.run_id, accounts=batcher.listed) if catalogue else None
    )
    for warning in (missing, changing, await warehouse.transact(values_not_cast)):
        if warning is not None:
            await warehouse.transact(ledger.warn, run.run_id, warning)
    # A clock that was ahead when the run began may have been corrected since.
    if await warehouse.transact(repair_future_times, run.run_id, now=clock.real()):
        clock.set_back()
    refused = await warehouse.publish_refusal(request.snapshot)
    if refused is None and run.resources.bucket is not None:
        refused = await upload_refusal(run.resources.bucket, warehouse)
    if refused is not None:
        warning = RunWarning(NOT_REPLACED, 1, refused.what, f"{refused.fix}.", makes_partial=True)
        await warehouse.transact(ledger.warn, run.run_id, warning)
    if (overdue := await _full_overdue(run)) is not None:
        await warehouse.transact(ledger.warn, run.run_id, overdue)
    warnings = await warehouse.transact(ledger.warnings, run.run_id)
    state = run_state(outcomes, stopped=stopped_by is not None, warnings=warnings)
    if state is RunState.COMPLETE and catalogue and run.resources.base_url is not None:
        await warehouse.transact(bind_service, run.resources.base_url)
    groups = await warehouse.transact(failure_groups_of, run.run_id, now=run.started_at)
    error_code, detail = _reason(stopped_by, groups, warnings)
    await _close(
        run,
        state,
        accounts=batcher.listed,
        accounts_missing=missing.count if missing else 0,
        partitions=outcomes.total,
        error_code=error_code,
        detail=detail,
    )
    did = await warehouse.transact(of_runs, [*run.scans.options.resumed_runs, *unmerged, run.run_id])
    (own,) = (each for each in did if each.run_id == run.run_id)
    return RunReport(
        run_id=run.run_id,
        kind=request.kind,
        selected=request.selected,
        reason=request.reason,
        resumed_runs=run.scans.options.resumed_runs,
        restarted=run.progress.restarted,
        snapshot=request.snapshot,
        snapshot_url=run.resources.bucket.url if run.resources.bucket else None,
        state=state,
        started_at=run.started_at,
        accounts=batcher.listed,
        accounts_removed=own.accounts_removed,
        accounts_missing=missing.count if missing else 0,
        outcomes=outcomes,
        pages=own.pages,
        items=own.items,
        media=own.media,
        resumed=tuple(each for each in did if each is not own),
        failure_groups=groups,
        warnings=warnings,
        stopped_by=stopped_by,
        requests=run.progress.requests,
        as_of=run.started_at,
    )


async def _full_overdue(run: RunContext) -> RunWarning | None:
    """Return a warning if full scans are overdue, which happens when the budget is too small for them."""
    mode = run.scans.options.incremental
    if mode is None:
        return None
    due = await run.resources.warehouse.read(full_scans_due, now=run.resources.clock.now(), every=mode.every)
    overdue = [age for age, _ in due if age >= OVERDUE]
    if not overdue:
        return None
    detail = (
        f"The last full scan of the posts of {count(len(overdue), 'account')} is more than twice as old as"
        f" GRAMHOUSE_FULL_REFRESH_EVERY ({mode.every.days} d) allows: up to {max(overdue) * mode.every.days:.0f} d."
    )
    return RunWarning("full_overdue", len(overdue), detail, "Increase GRAMHOUSE_FULL_REFRESH_BUDGET.")


def _reason(
    stopped_by: Failure | None, groups: Sequence[FailureGroup], warnings: Sequence[RunWarning]
) -> tuple[str | None, str | None]:
    """Return the error code and detail for a run's row: why it is not complete, or (None, None)."""
    if stopped_by is not None:
        return stopped_by.code, stopped_by.message
    if groups:
        return groups[0].error_code, groups[0].detail
    partial = next((warning for warning in warnings if warning.makes_partial), None)
    return (partial.code, partial.detail) if partial else (None, None)


async def _close(run: RunContext, state: RunState, **columns: object) -> None:
    columns["requests"] = run.progress.requests
    end = partial(ledger.end, now=run.resources.clock.now(), **columns)
    await run.resources.warehouse.transact(end, run.run_id, state)
