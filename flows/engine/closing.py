"""Closes a run: decides removals, writes its end, deletes what is old, and reports."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

from connectors.source.errors import Disposition
from connectors.state.published import read_published
from connectors.state.runs import delete_runs, read_runs, warn
from connectors.warehouse.maintenance.retention import (
    delete_old_runs,
    delete_quarantined,
    delete_repeated_outcomes,
    find_agreed_time,
)
from connectors.warehouse.merge.removals import remove_missing
from connectors.warehouse.publish.publish import bring_state
from connectors.warehouse.queries.outcomes import count_outcomes, read_report, read_run_failures
from connectors.warehouse.storage.errors import WarehouseError, first_line
from flows.engine.publishing import Published
from flows.engine.run import Run
from flows.engine.warehouse import Warehouse
from flows.engine.warnings import ACCOUNTS_MISSING, find_warnings
from flows.reporting.progress import notices
from flows.reporting.run_report import NO_DATA, RunReport, read_data
from models.runs import Severity, run_state

# How long all outcomes are kept: 100,000 accounts have half a million a day, and nearly all repeat the one before.
_ALL_OUTCOMES = timedelta(days=7)


async def close_run(run: Run) -> RunReport:
    """Decide removals, write the end of a run to the state, and delete old rows. All pages must be merged.

    Every partition has its outcome. Raises ValueError if one has two.
    """
    warehouse, request = run.resources.warehouse, run.request
    outcomes = await warehouse.read(count_outcomes, run.run_id)
    [row] = await warehouse.read_state(read_runs, limit=1)
    accepts = request.options.accept_removals
    removals = await warehouse.alone(remove_missing, row["seq"], run.run_id, accept_removals=accepts)
    warnings = await find_warnings(run, outcomes, removals)
    await warehouse.write_state(warn, run.run_id, warnings)
    missing = sum(warning.count for warning in warnings if warning.code == ACCOUNTS_MISSING)
    # An outage ends the scans, but what they landed counts.
    stopped_by = run.requests.stopped_by
    if stopped_by is not None and stopped_by.disposition is not Disposition.STOP:
        stopped_by = None
    state = run_state(outcomes, stopped=stopped_by is not None, warnings=warnings)
    groups = await warehouse.read(read_run_failures, run.run_id, now=run.began_at)
    # Why it is not complete.
    causes = [(stopped_by.code, stopped_by.message)] if stopped_by else []
    causes += [(group.error_code, group.detail) for group in groups]
    causes += [(each.code, each.text) for each in warnings if each.severity is Severity.ACTION]
    error_code, detail = next(iter(causes), (None, None))
    more = {"accounts_missing": missing, "partitions": outcomes.total}
    await run.end(state, error_code=error_code, detail=detail, **more)
    await delete_old(timedelta(days=request.settings.keep_runs), warehouse, now=run.clock.now())
    facts = await warehouse.read(read_report, run.run_id, resumed=run.resumed, now=run.began_at)
    return RunReport(
        **facts,
        resumed_runs=run.resumed,
        stopped_by=stopped_by,
        restarted=run.progress.restarted,
        mapping_pending=warehouse.files.mapping != request.settings.media_mapping(),
        snapshot=request.settings.snapshot_file(),
        snapshot_url=request.settings.snapshot_url(),
        seconds=(run.clock.now() - run.began_at).total_seconds(),
    )


async def complete_report(run: Run, report: RunReport, published: Published) -> RunReport:
    """Return the report of a closed run with what its snapshot says."""
    now, data = run.clock.now(), NO_DATA
    try:
        data = await asyncio.to_thread(read_data, report.snapshot, [report.run_id, *report.resumed_runs], now=now)
    except WarehouseError as error:
        # For example, another program has opened it for writing since.
        notices.warning(f"The snapshot that was published cannot be read: {first_line(error)}")
    return replace(report, snapshot_bytes=published.snapshot_bytes, report=published.report, data=data, as_of=now)


async def delete_old(keep: timedelta, warehouse: Warehouse, *, now: datetime) -> None:
    """Bring the state's runs to the warehouse, and delete old ones and quarantined records.

    Ages are counted from the time on which the last runs agree.
    """
    await warehouse.write(bring_state, await warehouse.read_state(read_published))
    now = await warehouse.read(find_agreed_time, now=now)
    await warehouse.write(delete_repeated_outcomes, before=now - min(keep, _ALL_OUTCOMES))
    runs = await warehouse.write(delete_old_runs, before=now - keep)
    await warehouse.write_state(delete_runs, runs)
    await warehouse.write(delete_quarantined, before=now - keep)
