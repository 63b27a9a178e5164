"""The report of a sync on the terminal."""

from collections.abc import Iterator

from humanize import naturalsize
from rich.table import Table

from flows.cli.output.terminal import DONE, FAIL, WARN, clean, out
from flows.reporting.findings import Severity, findings
from flows.reporting.report import landed, outcomes
from flows.reporting.run_report import RunReport
from flows.reporting.words import changes, count, moment, span
from models.runs import RunState

_MARKS = {RunState.COMPLETE: DONE, RunState.PARTIAL: WARN, RunState.FAILED: FAIL}
_STYLES = {Severity.ACTION: "bold", Severity.WARNING: "yellow", Severity.INFORMATION: "dim"}


def _rows(report: RunReport) -> Iterator[tuple[str, str]]:
    for finding in findings(report):
        yield f"[{_STYLES[finding.severity]}]{finding.severity}[/]", clean(finding.sentence())
    for run in report.resumed:
        yield "earlier", f"{run.kind} of {moment(run.started_at)} UTC ({run.state.value}): {landed(run)}"
    if report.accounts:
        yield "listed" if report.kind == "sync" else "chosen", count(report.accounts, "account")
    if report.state is not RunState.COMPLETE:
        yield "scans", outcomes(report)
    if report.pages:
        yield "landed", f"{count(report.pages, 'page')}, {count(report.items, 'record')}"
        yield "media", changes(report.media)
    if report.requests:
        yield "requests", f"{report.requests:,}"
    size = "unchanged" if report.snapshot_bytes is None else naturalsize(report.snapshot_bytes)
    yield "snapshot", f"{clean(report.snapshot_url or report.snapshot)} ({size})"
    if report.report:
        yield "report", clean(report.report)


def show(report: RunReport) -> None:
    """Print a run's report; only its findings if it was stopped before it landed a page."""
    head = f"{_MARKS[report.state]} [bold]{report.state.value}[/]"
    if report.stopped_by and not report.pages:
        first, *others = (clean(finding.sentence()) for finding in findings(report))
        out.print(f"{head} {first}", soft_wrap=True)
        for line in others:
            out.print(f"{WARN} {line}", soft_wrap=True)
        return
    out.print(f"{head} in {span(report.seconds)}")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for name, result in _rows(report):
        grid.add_row(name, result)
    out.print(grid)
