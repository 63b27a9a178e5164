"""Closes a run: decides removals, and reports."""

import asyncio
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta

from connectors.source.errors import Disposition, Failure
from connectors.state.published import read_published
from connectors.state.runs import delete_runs, read_run_numbers, warn
from connectors.warehouse.maintenance.retention import (
    delete_old_runs,
    delete_quarantined,
    delete_repeated_outcomes,
    find_agreed_time,
)
from connectors.warehouse.merge.removals import remove_missing
from connectors.warehouse.publish.publish import StateRows, bring_state
from connectors.warehouse.queries.outcomes import (
    FailureGroup,
    count_outcomes,
    read_run_failures,
)
from connectors.warehouse.storage.errors import WarehouseError, first_line
from flows.engine.publishing import Published, refuse_publication
from flows.engine.run import Run, of_runs
from flows.engine.warehouse import Warehouse
from flows.engine.warnings import ACCOUNTS_MISSING, find_warnings
from flows.reporting.progress import notices
from flows.reporting.run_report import NO_DATA, Data, RunReport, read_data
from flows.reporting.words import count
from models.findings import Finding, Severity
from models.runs import NOT_REPLACED, run_state


async def close_run(run: Run) -> RunReport:
    """Decide removals, write the end of a run to the state, and delete old rows. All pages must be merged.

    Every partition has its outcome. Raises ValueError if one has two.
    """
    warehouse, request = run.resources.warehouse, run.request
    outcomes = await warehouse.read(count_outcomes, run.run_id)
    run_seq = (await warehouse.read_state(read_run_numbers))[run.run_id]
    removals = await warehouse.alone(remove_missing, run_seq, run.run_id, accept_removals=request.accept_removals)
    warnings = [*await find_warnings(run, outcomes, removals), *await _not_replaced(run)]
    warnings.sort(key=lambda warning: (warning.severity is not Severity.ACTION, warning.code))
    await warehouse.write_state(warn, run.run_id, warnings)
    missing = next((warning.count for warning in warnings if warning.code == ACCOUNTS_MISSING), 0)
    # An outage ends the scans, but what they landed counts.
    stopped_by = run.stopped_by if run.stopped_by and run.stopped_by.disposition is Disposition.STOP else None
    state = run_state(outcomes, stopped=stopped_by is not None, warnings=warnings)
    groups = await warehouse.read(read_run_failures, run.run_id, now=run.at)
    error_code, detail = _reason(stopped_by, groups, warnings)
    of_row = {"accounts_missing": missing, "partitions": outcomes.total, "error_code": error_code, "detail": detail}
    await run.end(state, **of_row)
    # Until the run's end in the ledger, so that a run has one duration.
    seconds = run.seconds
    await delete_old(timedelta(days=request.settings.keep_runs), warehouse, now=run.clock.now())
    did = await of_runs(warehouse, [*run.resumed, *warehouse.files.recovered_runs, run.run_id])
    (own,) = (each for each in did if each.run_id == run.run_id)
    return RunReport(
        **{each.name: getattr(own, each.name) for each in fields(own)},
        selected=request.selected,
        reason=request.reason,
        resumed_runs=run.resumed,
        restarted=run.progress.restarted,
        snapshot=request.settings.snapshot_file(),
        snapshot_url=request.settings.snapshot_url(),
        accounts=run.batcher.listed,
        accounts_missing=missing,
        outcomes=outcomes,
        resumed=tuple(each for each in did if each is not own),
        failure_groups=groups,
        warnings=tuple(warnings),
        stopped_by=stopped_by,
        requests=run.progress.requests,
        mapping_pending=warehouse.files.mapping != request.settings.media_mapping(),
        seconds=seconds,
        as_of=run.at,
    )


async def complete_report(run: Run, report: RunReport, published: Published | None) -> RunReport:
    """Return the report of a run that is closed and published, with what the snapshot says; record a refusal."""
    if published is not None:
        report = replace(report, snapshot_bytes=published.snapshot_bytes, report=published.report)
        report = replace(report, data=await _data(run, report))
    elif (refused := report.publish_refusal) is not None:
        # The snapshot does not have this run, so only the state can say why it was not published.
        await run.end(report.state, error_code=refused.code, detail=refused.text)
    return replace(report, as_of=run.clock.now())


async def _data(run: Run, report: RunReport) -> Data:
    runs = [report.run_id, *report.resumed_runs]
    try:
        return await asyncio.to_thread(read_data, report.snapshot, runs, now=run.clock.now())
    except WarehouseError as error:
        # For example, another program has opened it for writing since.
        notices.warning(f"The snapshot that was published cannot be read: {first_line(error)}")
        return NO_DATA


async def _not_replaced(run: Run) -> Sequence[Finding]:
    """Return a warning if the snapshot must not be published."""
    refused = await refuse_publication(run.resources.warehouse, run.request.settings, now=run.clock.now())
    if refused is None:
        return ()
    what, _, fix = refused.partition(" Fix: ")
    return [Finding(NOT_REPLACED, Severity.ACTION, what.rstrip("."), fix.rstrip("."))]


# How long all outcomes are kept: 100,000 accounts have half a million a day, and nearly all repeat the one before.
_ALL_OUTCOMES = timedelta(days=7)


async def delete_old(keep: timedelta, warehouse: Warehouse, *, now: datetime) -> None:
    """Delete old runs and quarantined records. Ages are counted from the time on which the last runs agree.

    A failure is logged and not raised, because the run has already landed all its pages.
    """
    try:
        await warehouse.write(bring_state, StateRows(*await warehouse.read_state(read_published)))
        now = await warehouse.read(find_agreed_time, now=now)
        await warehouse.write(delete_repeated_outcomes, before=now - min(keep, _ALL_OUTCOMES))
        runs = await warehouse.write(delete_old_runs, before=now - keep)
        await warehouse.write_state(delete_runs, runs)
        records = await warehouse.write(delete_quarantined, before=now - keep)
    except WarehouseError as error:
        notices.warning(f"Could not delete old runs: {error}")
        return
    deleted = [count(number, what) for number, what in ((len(runs), "run"), (records, "quarantined record")) if number]
    if deleted:
        notices.warning(f"Deleted {' and '.join(deleted)} older than {count(keep.days, 'day')}.")


def _reason(
    stopped_by: Failure | None, groups: Sequence[FailureGroup], warnings: Sequence[Finding]
) -> tuple[str | None, str | None]:
    """Return the error code and detail for a run's row: why it is not complete, or (None, None)."""
    if stopped_by is not None:
        return stopped_by.code, stopped_by.message
    if groups:
        return groups[0].error_code, groups[0].detail
    partial = next((warning for warning in warnings if warning.severity is Severity.ACTION), None)
    return (partial.code, partial.text) if partial else (None, None)
