"""What a person reads when a sync has ended."""

from collections.abc import Iterator

from rich.table import Table

from connectors.source.errors import Failure, hint_for
from connectors.warehouse.report import Concern
from connectors.warehouse.run_counts import RunCounts
from flows.cli.terminal import DONE, FAIL, WARN, clean, moment, out
from flows.pipeline import RunReport
from flows.report import landed, outcomes, recommendation, requests_made
from flows.words import changes, count, megabytes, span
from models.ledger import OutcomeKind, RunState, RunWarning

_MARKS = {RunState.COMPLETE: DONE, RunState.PARTIAL: WARN, RunState.FAILED: FAIL}


def _concern(concern: Concern) -> str:
    what = count(concern.partitions, "walk") if concern.example != "the account catalogue" else concern.example
    trace = f", correlation id {clean(concern.correlation_id)}" if concern.correlation_id else ""
    example = f" ({clean(concern.example)}{trace})" if what != concern.example else trace
    said = f": {clean(concern.detail.rstrip('.'))}" if concern.detail else ""
    after = f" To be taken up after {moment(concern.resume_after, seconds=True)} UTC." if concern.resume_after else ""
    hint = hint_for(concern.error_code)
    advice = f"\n[dim]{hint[:1].upper()}{hint[1:]}.[/]" if hint and concern.outcome is not OutcomeKind.DEFERRED else ""
    return f"{what}, [yellow]{clean(concern.error_code)}[/]{said}{example}.{after}{advice}"


def _listed(report: RunReport) -> str:
    told = count(report.accounts, "account")
    if report.kind == "sync" and report.accounts and report.expired:
        told += f", {report.expired:,} of them with an expired token"
    if report.accounts_removed:
        told += f"; {count(report.accounts_removed, 'account')} marked removed"
    return told


def _stopped(stop: Failure) -> str:
    trace = f" (correlation id {clean(stop.correlation_id)})" if stop.correlation_id else ""
    return (
        f"[red]{clean(stop.code)}[/]: {clean(stop.message.rstrip('.'))}{trace}. {stop.mend[:1].upper()}{stop.mend[1:]}."
    )


def _warning(warning: RunWarning) -> str:
    return f"{clean(warning.detail)}" + (f" [dim]Fix: {clean(warning.hint)}[/]" if warning.hint else "")


def _relation(run: RunCounts, report: RunReport) -> str:
    """Say in one word what an earlier run is to this one."""
    if run.run_id not in report.carried_on:
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
        yield "restarted", f"{count(report.restarted, 'walk')} whose cursor was refused, from the first page"
    yield "listed" if report.kind == "sync" else "chosen", _listed(report)
    if report.state is not RunState.COMPLETE:
        yield "walks", outcomes(report)
    yield "landed", f"{count(report.pages, 'page')}, {count(report.items, 'record')}"
    yield "requests", requests_made(report)
    yield "media", changes(report.media)
    if report.media.quarantined:
        yield "quarantine", f"{count(report.media.quarantined, 'record')} set aside: see `gramhouse quarantine`"
    if report.mapping_pending:
        yield "mapping", "the media are read by an earlier one: `gramhouse rebuild` applies the present"
    for concern in report.concerns:
        if report.stopped_by is None or concern.error_code != report.stopped_by.code:
            yield concern.outcome.value.replace("_", " "), _concern(concern)
    for warning in report.warnings:
        yield "warning", _warning(warning)
    yield from _made(report)


def _made(report: RunReport) -> Iterator[tuple[str, str]]:
    if advised := recommendation(report):
        yield "advice", clean(advised)
    size = "left as it was" if report.snapshot_bytes is None else megabytes(report.snapshot_bytes)
    yield "snapshot", f"{clean(report.snapshot)} ({size})"
    if report.report:
        yield "report", clean(report.report)


def show(report: RunReport) -> None:
    """Print a run's report; a single line where the API would not hear of us."""
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
    for name, told in _rows(report):
        grid.add_row(name, told)
    if out.is_terminal:
        out.print(grid)
        return
    with out.capture() as captured:
        out.print(grid)
    for line in captured.get().splitlines():
        out.out(line.rstrip())
