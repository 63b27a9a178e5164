"""Closes a run: checks that each partition has its outcome, finds what a person should know, and reports."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

from connectors.source.errors import Failure
from connectors.warehouse.maintenance.changing_fields import one_field_changes_most
from connectors.warehouse.maintenance.future_times import repair_future_times
from connectors.warehouse.merge.account_removal import missing_accounts
from connectors.warehouse.merge.run_counts import of_runs
from connectors.warehouse.runs import ledger
from connectors.warehouse.runs.failure_groups import FailureGroup, expired_accounts, failure_groups_of
from connectors.warehouse.schema.not_cast import values_not_cast
from connectors.warehouse.snapshot.publish import publish_refusal
from connectors.warehouse.storage.errors import WarehouseError, first_line
from flows.engine.resources import move_back
from flows.engine.run import Run
from flows.engine.upkeep import Published, delete_old, upload_refusal
from flows.reporting.progress import notices
from flows.reporting.run_report import NO_DATA, Data, RunReport, read_data
from flows.reporting.words import count, per_second, span
from models.runs import NOT_REPLACED, OutcomeKind, RunWarning, Tally, run_state


async def close_run(run: Run) -> RunReport:
    """Write the end of a run to the ledger, and delete old rows. All pages must be merged.

    Raises AssertionError if a partition has no outcome, or more than one.
    """
    warehouse, request, batcher, beginning = run.resources.warehouse, run.request, run.batcher, run.scans.beginning
    is_sync = request.selection is None
    outcomes = await warehouse.read(ledger.tally, run.run_id)
    expected = is_sync + batcher.expected_outcomes
    if outcomes.total != expected:
        raise AssertionError(f"the ledger holds {outcomes.total} outcomes where {expected} are due")
    stopped_by = run.scans.stop_media.failure
    # A clock that was ahead when the run began may have been corrected since.
    if moved := await warehouse.write(repair_future_times, run.run_id, now=run.clock.real()):
        await move_back(warehouse, moved, run.clock.real())
        run.clock.set_back()
    missing = await warehouse.read(missing_accounts) if is_sync else None
    await _warn(run, missing, outcomes)
    warnings = await warehouse.read(ledger.warnings, run.run_id)
    state = run_state(outcomes, stopped=stopped_by is not None, warnings=warnings)
    groups = await warehouse.read(failure_groups_of, run.run_id, now=beginning.at)
    error_code, detail = _reason(stopped_by, groups, warnings)
    accounts_missing = missing.count if missing else 0
    await run.end(
        state,
        accounts_missing=accounts_missing,
        partitions=outcomes.total,
        error_code=error_code,
        detail=detail,
    )
    await warehouse.copy_runs()
    did = await warehouse.read(of_runs, [*beginning.resumed, *warehouse.recovered_runs, run.run_id])
    if request.keep_runs is not None:
        await delete_old(request.keep_runs, warehouse, now=run.clock.now())
    (own,) = (each for each in did if each.run_id == run.run_id)
    return RunReport(
        **{each.name: getattr(own, each.name) for each in fields(own)},
        selected=request.selected,
        reason=request.reason,
        resumed_runs=beginning.resumed,
        restarted=run.progress.restarted,
        snapshot=request.snapshot,
        snapshot_url=run.resources.bucket.url if run.resources.bucket else None,
        accounts=batcher.listed,
        accounts_missing=accounts_missing,
        outcomes=outcomes,
        resumed=tuple(each for each in did if each is not own),
        failure_groups=groups,
        warnings=warnings,
        stopped_by=stopped_by,
        requests=run.progress.requests,
        mapping_pending=beginning.stored_mapping != request.mapping,
        as_of=beginning.at,
    )


async def finish_run(run: Run, report: RunReport, published: Published | None) -> RunReport:
    """Record the end of a run that is closed and published; return the report, with what the snapshot says."""
    if published is not None:
        report = replace(report, snapshot_bytes=published.snapshot_bytes, report=published.report)
        report = replace(report, data=await _data(run, report))
    report = replace(
        report,
        as_of=run.clock.now(),
        expired=await run.resources.warehouse.read(expired_accounts),
        seconds=run.seconds,
    )
    if (refused := report.publish_refusal) is not None:
        # The snapshot does not have this run, so only the state can say why it was not published.
        await run.end(report.state, error_code=refused.code, detail=refused.detail)
    return report


async def _data(run: Run, report: RunReport) -> Data:
    runs = [report.run_id, *report.resumed_runs]
    try:
        return await asyncio.to_thread(read_data, report.snapshot, runs, now=run.clock.now())
    except WarehouseError as error:
        # For example, another program has opened it for writing since.
        notices.warning(f"The snapshot that was published cannot be read: {first_line(error)}")
        return NO_DATA


async def _warn(run: Run, missing: RunWarning | None, outcomes: Tally) -> None:
    """Write all warnings of a run to the ledger."""
    warehouse = run.resources.warehouse
    found = [missing, _nothing_scanned(run, outcomes), *_limited(run)]
    if run.request.selection is None:
        found.append(await warehouse.read(one_field_changes_most, run.run_id, accounts=run.batcher.listed))
    found += [await warehouse.read(values_not_cast), await _not_replaced(run)]
    for warning in found:
        if warning is not None:
            await warehouse.write(ledger.warn, run.run_id, warning)


def _nothing_scanned(run: Run, outcomes: Tally) -> RunWarning | None:
    """Return a warning if a backfill skipped all accounts that it was asked for."""
    if run.request.selection is None or outcomes[OutcomeKind.SKIPPED] < outcomes.total:
        return None
    which = "the account has expired" if run.batcher.listed == 1 else "all chosen accounts have expired"
    fix = "The owner must renew it first, or set GRAMHOUSE_SCAN_EXPIRED=true."
    return RunWarning(
        "nothing_scanned", run.batcher.listed, f"Nothing was scanned: the token of {which}.", fix, makes_partial=True
    )


def _limited(run: Run) -> Iterator[RunWarning]:
    """Yield warnings if the service limited all requests: the rate, and that the run took too long because of it."""
    allowed, fixed = run.scans.pacer.rate.allowed, run.resources.rate.fixed
    if allowed is None:
        return
    rate, refused = per_second(allowed), count(run.progress.refused, "request")
    if fixed is None:
        detail, hint = f"The service allows {rate}; pace kept ({refused} refused).", None
    else:
        detail = f"The service allows {rate}, and GRAMHOUSE_REQUESTS_PER_SECOND is {fixed:g} ({refused} refused)."
        hint = "Lower the setting, or remove it, so that runs find out what the service allows."
    yield RunWarning("requests_per_second", round(allowed), detail, hint)
    schedule, next_run = run.request.schedule, run.progress.next_run
    if schedule is not None and next_run is not None and run.clock.now() > next_run:
        every = next_run - run.scans.beginning.at
        detail = (
            f"The run took {span(run.seconds)}, longer than the {span(every.total_seconds())} between two runs of"
            f" {schedule.setting}, because the service allows {rate}."
        )
        hint = (
            f"Ask the service for more, set GRAMHOUSE_SYNC_MODE=incremental, or make {schedule.setting} less frequent."
        )
        yield RunWarning("longer_than_schedule", 1, detail, hint)


async def _not_replaced(run: Run) -> RunWarning | None:
    """Return a warning if the snapshot's place holds something else, or a column to hide does not exist."""
    warehouse, bucket = run.resources.warehouse, run.resources.bucket
    refused = await warehouse.alone(publish_refusal, run.request.snapshot, run.request.hide)
    if refused is None and bucket is not None:
        refused = await upload_refusal(bucket, warehouse)
    if refused is None:
        return None
    return RunWarning(NOT_REPLACED, 1, refused.what, f"{refused.fix}.", makes_partial=True)


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
