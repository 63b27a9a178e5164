"""The report of a sync on the terminal."""

from collections.abc import Iterator
from datetime import datetime

from rich.table import Table

from connectors.source.errors import Failure
from connectors.warehouse.merge.run_counts import RunCounts
from connectors.warehouse.runs.failure_groups import FailureGroup
from flows.cli.output.terminal import DONE, FAIL, WARN, clean, out
from flows.engine.pipeline import RunReport
from flows.reporting.report import landed, outcomes
from flows.reporting.words import changes, count, file_size, group_fix, moment, span
from models.runs import RunState, RunWarning

_MARKS = {RunState.COMPLETE: DONE, RunState.PARTIAL: WARN, RunState.FAILED: FAIL}


def _failure_group(group: FailureGroup, now: datetime) -> str:
    example = group.example
    trace = f", correlation id {clean(example.correlation_id)}" if example.correlation_id else ""
    what, one = count(group.scans, "scan"), f" ({clean(example)}{trace})"
    if not example.surface:
        what, one = str(example), trace
    detail = f": {clean(group.detail.rstrip('.'))}" if group.detail else ""
    after = f" Deferred until {moment(group.resume_after, seconds=True)} UTC." if group.resume_after else ""
    fix = group_fix(group, now)
    advice = f"\n[dim]{clean(fix)}[/]" if fix else ""
    return f"{what}, [yellow]{clean(group.error_code)}[/]{detail}{one}.{after}{advice}"


def _listed(report: RunReport) -> str:
    result = count(report.accounts, "account")
    if report.kind == "sync" and report.accounts and report.expired:
        result += f", {report.expired:,} with an expired token"
    if report.accounts_removed:
        result += f"; {count(report.accounts_removed, 'account')} marked removed"
    return result


def _stopped(stop: Failure) -> str:
    trace = f" (correlation id {clean(stop.correlation_id)})" if stop.correlation_id else ""
    return f"[red]{clean(stop.code)}[/]: {clean(stop.message.rstrip('.'))}{trace}. Fix: {clean(stop.hint)}."


def _warning(warning: RunWarning) -> str:
    return f"{clean(warning.detail)}" + (f" [dim]Fix: {clean(warning.hint)}[/]" if warning.hint else "")


def _relation(run: RunCounts, report: RunReport) -> str:
    """Return the relation of an earlier run to this one, as one word."""
    if run.run_id not in report.resumed_runs:
        return "merged"
    return "resumed" if run.state is RunState.INTERRUPTED else "unpublished"


def _rows(report: RunReport) -> Iterator[tuple[str, str]]:
    if report.stopped_by:
        yield "stopped", _stopped(report.stopped_by)
    for run in report.resumed:
        yield (
            _relation(run, report),
            f"{run.kind} of {moment(run.started_at)} UTC ({run.state.value}), which landed {landed(run)}",
        )
    if report.restarted:
        yield "restarted", f"{count(report.restarted, 'scan')} from the first page because the cursor was refused"
    yield "listed" if report.kind == "sync" else "chosen", _listed(report)
    if report.state is not RunState.COMPLETE:
        yield "scans", outcomes(report)
    yield "landed", f"{count(report.pages, 'page')}, {count(report.items, 'record')}"
    yield "requests", f"{report.requests:,}"
    yield "media", changes(report.media)
    if report.media.quarantined:
        yield "quarantine", f"{count(report.media.quarantined, 'record')} rejected: see `gramhouse quarantine`"
    if report.mapping_pending:
        yield "mapping", "stored media use an earlier mapping: run `gramhouse rebuild` to apply the current one"
    for failure_group in report.failure_groups:
        if report.stopped_by is None or failure_group.error_code != report.stopped_by.code:
            yield failure_group.outcome.value.replace("_", " "), _failure_group(failure_group, report.started_at)
    for warning in report.warnings:
        yield "warning", _warning(warning)
    yield from _made(report)


def _made(report: RunReport) -> Iterator[tuple[str, str]]:
    size = "unchanged" if report.snapshot_bytes is None else file_size(report.snapshot_bytes)
    yield "snapshot", f"{clean(report.snapshot_url or report.snapshot)} ({size})"
    if report.report:
        yield "report", clean(report.report)


def show(report: RunReport) -> None:
    """Print a run's report; only its error if it was stopped before it landed a page."""
    mark = _MARKS[report.state]
    if report.stopped_by and not report.pages:
        out.print(f"{mark} [bold]{report.state.value}[/] {_stopped(report.stopped_by)}", soft_wrap=True)
        for warning in report.warnings:
            out.print(f"{WARN} {_warning(warning)}", soft_wrap=True)
        return
    out.print(f"{mark} [bold]{report.state.value}[/] in {span(report.seconds)}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, result in _rows(report):
        grid.add_row(name, result)
    out.print(grid)
