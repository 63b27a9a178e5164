"""`gramhouse sync` and `gramhouse backfill`: runs, tracked by Prefect if its API is configured, otherwise direct."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, nullcontext
from datetime import datetime, timedelta
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from humanize import naturalsize
from rich.console import RenderableType
from rich.text import Text

from connectors.warehouse.queries.reader import Record
from flows.cli.options import RunArguments, since_time
from flows.cli.signals import run_until_signalled
from flows.cli.table import listing
from flows.cli.terminal import DONE, FAIL, WARN, Answer, clean, err, finding_line, log_requests, name_run, row
from flows.clock import SystemClock
from flows.config.environment import find_exposed_key, prefect_api_url
from flows.config.errors import ExitCode, SettingsError
from flows.config.options import BackfillOptions, SyncOptions
from flows.config.run_request import RunRequest
from flows.config.settings import Settings, load
from flows.reporting.findings import list_findings
from flows.reporting.message import list_numbers, to_document, to_message
from flows.reporting.progress import Progress, notices
from flows.reporting.recording import record_failed_start
from flows.reporting.words import count, join, moment, per_second, span
from models.runs import RunState, Severity
from models.selection import NothingChosen

if TYPE_CHECKING:
    from flows.engine.retrying import Retry
    from flows.reporting.run_report import RunReport

# The most scans that are listed one by one.
_SHOWN = 20

# Seconds between updates of the line on a terminal, and between lines elsewhere.
_UPDATED, _PLAIN = 0.125, 15.0

_ENDS = {
    RunState.COMPLETE: (DONE, logging.INFO),
    RunState.PARTIAL: (WARN, logging.WARNING),
    RunState.FAILED: (FAIL, logging.ERROR),
}


def sync(
    *,
    options: SyncOptions = SyncOptions(),
    incremental: bool = False,
    full_refresh: bool = False,
    plan: bool = False,
    run: RunArguments = RunArguments(),
) -> Answer:
    """Sync all that the API key can see, and publish a snapshot.

    An interrupted run is resumed: saved pages are not fetched again.

    Exit codes: 0 complete, 1 failed, 2 wrong usage or configuration, 3 partial, 4 the warehouse is held by
    another process.

    Args:
        incremental: Fetch only new and recent posts (GRAMHOUSE_SYNC_MODE).
        full_refresh: Fetch all posts of every account (GRAMHOUSE_SYNC_MODE).
        plan: Show what would be requested now and why, without a request.
    """
    if incremental and full_refresh:
        raise SettingsError("--incremental and --full-refresh cannot be combined. Fix: use one of them.")
    mode = "incremental" if incremental else "full_refresh" if full_refresh else None
    options = options.model_copy(update={"mode": mode})
    return _plan(options, run) if plan else _run(options, run)


def _plan(options: SyncOptions | BackfillOptions, run: RunArguments) -> Answer:
    from flows.engine.plan import make_plan

    settings = load(**run.settings(options.expert))
    plan = make_plan(RunRequest(settings, options), now=SystemClock().now())
    return Answer(plan, _describe_plan(plan))


def _describe_plan(plan: Record) -> Iterator[RenderableType]:
    """Yield what a run would do: its scans by reason, and of few accounts each scan."""
    from flows.engine.plan import describe_plan

    if plan["groups"]:
        yield from listing(plan["groups"], "surface scan reason scans requests")
    if 0 < len(plan["scans"]) <= _SHOWN:
        dues = "due_at due_reason" if any(scan["reason"] == "not_due" for scan in plan["scans"]) else ""
        columns = f"ig_username surface scan reason requests {dues} resume_after account_id"
        yield ""
        yield from listing(plan["scans"], columns, prose="ig_username")
    yield describe_plan(plan)


def backfill(
    *,
    options: BackfillOptions = BackfillOptions(),
    expired_since: Annotated[str | None, Parameter(metavar="TIME")] = None,
    run: RunArguments = RunArguments(),
) -> Answer:
    """Scan selected accounts again from the first page.

    History and first_seen_at are kept. An interrupted sync keeps its progress. Exit codes are those of
    `gramhouse sync`; 0 even when no account matches, and 3 when the tokens of all accounts that match have expired.

    Args:
        expired_since: Accounts whose token was expired at any time since then: 2d, 36h, or a date (UTC).
    """
    if expired_since is not None:
        since = since_time("--expired-since", expired_since, SystemClock().now())
        options = options.model_copy(update={"expired_since": since})
    # Raises SelectionError if it selects nothing.
    options.selection()
    return _plan(options, run) if options.dry_run else _run(options, run)


async def _attempt_tracked(
    options: SyncOptions | BackfillOptions, run: RunArguments, progress: Progress, take_signals: Callable[[], None]
) -> "RunReport":
    from flows.orchestration.processes import PREFECT_CLIENT, import_prefect

    # The terminal has its own report; Prefect's log lines are only sent to its server.
    import_prefect({**PREFECT_CLIENT, "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"})
    from flows.orchestration.credentials import load_with_credentials
    from flows.orchestration.flow_run import track
    from flows.pipeline import start_run
    from flows.sync import TRACKED

    async def work() -> "RunReport":
        # Prefect has replaced the signal handlers.
        take_signals()
        settings = await load_with_credentials(run.settings(options.expert))
        return await start_run(RunRequest(settings, options), TRACKED, progress)

    return await track(options, work)


def _begin(kind: str, settings: Settings, run: RunArguments) -> str | None:
    """Say what begins; return the address of Prefect's API if it tracks the run. Raises SettingsError."""
    api = prefect_api_url()
    if api and settings.credentials is not None:
        # The block, which the run reads from Prefect's server, precedes the setting, but not the option.
        address = run.base_url or f"the service of block {settings.credentials}"
    else:
        address = settings.address()
        settings.key(), settings.network()
    if run.verbose:
        log_requests()
    elif run.log_format == "text":
        # The report has these warnings, counted by cause.
        logging.getLogger("flows.engine").setLevel(logging.ERROR)
    notices.info(f"gramhouse {kind} of {address}{f', tracked by {api}' if api else ''}.")
    if warning := find_exposed_key():
        notices.warning(warning)
    return api


def _describe_progress(progress: Progress, seconds: float, now: datetime) -> str:
    """Return phase, waits, outlook and counts of a run: what matters most first, because a narrow terminal cuts.

    It has been running for `seconds`. What is left takes as long by account as what is done, or until a cooldown ends.
    """
    done, accounts = progress.accounts_done, progress.accounts
    cooldowns = [until for until in progress.cooldowns.values() if until > now]
    # Those that wait may take much longer.
    is_estimated = progress.phase == "scan" and done and not cooldowns and accounts - done > progress.waiting
    parts = (
        progress.phase,
        not progress.ending and f"{done:,} of {accounts:,}{'' if progress.catalogue_complete else '+'} accounts",
        cooldowns and f"{count(len(cooldowns), 'cooldown')} until {moment(max(cooldowns), seconds=True)} UTC",
        is_estimated and f"about {span(round(seconds / done * (accounts - done)))} left",
        progress.allowed is not None and f"the service allows {per_second(progress.allowed)}; pace kept",
        f"{progress.pages:,} pages",
        f"{progress.items:,} records",
        progress.waiting and f"{progress.waiting:,} waiting",
        progress.retries and f"{progress.retries:,} retried",
    )
    return join(" · ", parts)


@asynccontextmanager
async def _watch(progress: Progress, *, on_terminal: bool) -> AsyncIterator[None]:
    """Show the progress of a run while the block runs: in one line on a terminal, elsewhere a line every 15 seconds."""
    clock = SystemClock()
    began = clock.monotonic()
    status = err.status("") if on_terminal else None

    async def speak() -> None:
        while True:
            await asyncio.sleep(_PLAIN if status is None else _UPDATED)
            line = _describe_progress(progress, clock.monotonic() - began, clock.now())
            if status is None:
                notices.info(line)
            else:
                text = Text(line)
                # Beside the spinner, which has two characters.
                text.truncate(err.width - 2, overflow="ellipsis")
                status.update(text)

    speaker = asyncio.create_task(speak())
    try:
        with status or nullcontext():
            yield
    finally:
        speaker.cancel()


def describe_report(report: "RunReport") -> Iterator[RenderableType]:
    """Yield a run's state, its findings, each a cause and the fix, and its numbers.

    Of a run that failed before it landed a page, the cause is in the first line, and there are no numbers.
    """
    found = list_findings(report)
    head = f"{_ENDS[report.state][0]} [bold]{report.state.value}[/]"
    if report.state is RunState.FAILED and not report.pages and found:
        yield row(f"{head}:", text=found[0].sentence())
        yield from (finding_line(finding) for finding in found[1:] if finding.severity is Severity.ACTION)
        return
    yield f"{head} in {span(report.seconds)}"
    yield from map(finding_line, found)
    snapshot = f"{report.snapshot_url or report.snapshot} ({naturalsize(report.snapshot_bytes)})"
    for name, text in (*list_numbers(report), ("snapshot", snapshot), ("report", report.report)):
        if text:
            yield row(f"[dim]{name:<8}[/] ", text=text)


def _run(options: SyncOptions | BackfillOptions, run: RunArguments) -> Answer:
    """Run a sync or backfill with its retries; return the report of the last attempt."""
    from flows.engine.retrying import repeat

    clock, progress, is_text = SystemClock(), Progress(), run.log_format == "text"

    def work(take_signals: Callable[[], None]) -> "Coroutine[Any, Any, RunReport]":
        async def attempt() -> "RunReport":
            async with _watch(progress, on_terminal=err.is_terminal and is_text):
                if api:
                    return await _attempt_tracked(options, run, progress, take_signals)
                from flows.pipeline import start_run

                return await start_run(RunRequest(settings, options), progress=progress)

        async def announce(report: "RunReport", retry: "Retry | None") -> None:
            # The flow run has replaced the signal handlers.
            take_signals()
            if retry is not None:
                at = clock.now() + timedelta(seconds=retry.seconds)
                notices.warning(f"The run ended {report.state.value}. {retry}, at {at:%H:%M:%S} UTC.")

        return repeat(attempt, run.retries, sleep=clock.sleep, random=SystemRandom().random, announce=announce)

    # The failure of a run is recorded even if it does not begin: schedules start it.
    with record_failed_start(options.kind, options.expert.warehouse):
        settings = load(**run.settings(options.expert))
        api = _begin(options.kind, settings, run)
        name_run(progress)
        try:
            report = run_until_signalled(
                work, lambda: f"{count(progress.pages, 'page')} saved. Fix: run the same command to resume."
            )
        except NothingChosen as nothing:
            document = {"state": "nothing_to_do", "exit_code": ExitCode.COMPLETE, "detail": str(nothing)}
            return Answer(document, [clean(nothing)])
    if not is_text:
        for warning in report.warnings:
            notices.warning(f"{warning.text}.", extra={"code": warning.code})
        stop = report.stopped_by.facts if report.stopped_by else None
        notices.log(_ENDS[report.state][1], to_message(report), extra=stop)
    return Answer(to_document(report), describe_report(report), report.exit_code)
