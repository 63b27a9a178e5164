"""A run on the terminal: its progress, with an estimate of the remaining time, and its report."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from datetime import datetime

from humanize import naturalsize
from rich.console import RenderableType
from rich.text import Text

from flows.cli.terminal import DONE, FAIL, WARN, clean, err, finding_line, row
from flows.clock import SystemClock
from flows.reporting.findings import list_findings
from flows.reporting.message import list_numbers
from flows.reporting.progress import Progress, notices
from flows.reporting.run_report import RunReport
from flows.reporting.words import count, moment, per_second, span
from models.runs import RunState, Severity

# Seconds between updates of the line on a terminal, and between lines elsewhere.
_UPDATED, _PLAIN = 0.125, 15.0

_MARKS = {RunState.COMPLETE: DONE, RunState.PARTIAL: WARN, RunState.FAILED: FAIL}


def describe(progress: Progress, seconds: float, now: datetime) -> Iterator[str]:
    """Yield phase, waits, outlook and counts of a run: what matters most first, because a narrow terminal cuts.

    It has been running for `seconds`. What is left takes as long by account as what is done, or until a cooldown ends.
    """
    yield progress.phase
    if progress.phase in ("list", "scan"):
        more = "" if progress.catalogue_complete else "+"
        yield f"{progress.accounts_done:,} of {progress.accounts:,}{more} accounts"
    if cooldowns := [until for until in progress.cooldowns.values() if until > now]:
        yield f"{count(len(cooldowns), 'cooldown')} until {moment(max(cooldowns), seconds=True)} UTC"
    if progress.phase == "scan" and progress.accounts_done and not cooldowns:
        left = seconds / progress.accounts_done * (progress.accounts - progress.accounts_done)
        yield f"about {span(round(left))} left"
    if progress.allowed is not None:
        yield f"the service allows {per_second(progress.allowed)}; pace kept"
    yield f"{progress.pages:,} pages"
    yield f"{progress.items:,} records"
    if progress.waiting:
        yield f"{progress.waiting:,} waiting"
    if progress.retries:
        yield f"{progress.retries:,} retried"


@asynccontextmanager
async def watch(progress: Progress, *, on_terminal: bool) -> AsyncIterator[None]:
    """Show the progress of a run while the block runs: in one line on a terminal, elsewhere a line every 15 seconds."""
    clock = SystemClock()
    began = clock.monotonic()

    def line() -> str:
        return " · ".join(describe(progress, clock.monotonic() - began, clock.now()))

    def of_the_terminal() -> Text:
        # Beside the spinner, which has two characters.
        text = Text(line())
        text.truncate(err.width - 2, overflow="ellipsis")
        return text

    status = err.status(of_the_terminal()) if on_terminal else None

    async def speak() -> None:
        while True:
            await asyncio.sleep(_PLAIN if status is None else _UPDATED)
            if status is None:
                notices.info(line())
            else:
                status.update(of_the_terminal())

    speaker = asyncio.create_task(speak())
    try:
        with status or nullcontext():
            yield
    finally:
        speaker.cancel()


def describe_report(report: RunReport) -> Iterator[RenderableType]:
    """Yield a run's state, its findings, each a cause and the fix, and its numbers.

    Of a run that failed before it landed a page, the cause is in the first line, and there are no numbers.
    """
    found, is_failed = list_findings(report), report.state is RunState.FAILED
    head = f"{_MARKS[report.state]} [bold]{report.state.value}[/]"
    if is_failed and not report.pages and found:
        yield row(f"{head}:", clean(found[0].sentence()))
        yield from (finding_line(finding) for finding in found[1:] if finding.severity is Severity.ACTION)
        return
    yield f"{head} in {span(report.seconds)}"
    yield from map(finding_line, found)
    snapshot = f"{clean(report.snapshot_url or report.snapshot)} ({naturalsize(report.snapshot_bytes)})"
    for name, text in (*list_numbers(report), ("snapshot", snapshot), ("report", clean(report.report or ""))):
        if text:
            yield row(f"[dim]{name:<8}[/] ", text)
