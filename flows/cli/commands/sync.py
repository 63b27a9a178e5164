"""`gramhouse sync` and `gramhouse backfill`: runs, tracked by Prefect if its API is configured, otherwise direct."""

import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict
from datetime import timedelta
from random import SystemRandom
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import RenderableType

from flows.cli.log import log_requests, name_run
from flows.cli.options import RunArguments, since_time
from flows.cli.signals import run_until_signalled
from flows.cli.table import listing
from flows.cli.terminal import Answer, clean, err
from flows.clock import SystemClock
from flows.config.environment import find_exposed_key, prefect_api_url
from flows.config.errors import ExitCode, SettingsError
from flows.config.options import BackfillOptions, SyncOptions
from flows.config.settings import Settings, load
from flows.engine.run_request import RunRequest
from flows.reporting.progress import Progress, notices
from flows.reporting.recording import record_failed_start
from flows.reporting.words import count
from models.runs import RunState
from models.selection import NothingChosen

if TYPE_CHECKING:
    from flows.engine.plan import Plan
    from flows.engine.retrying import Retry
    from flows.reporting.run_report import RunReport

# The most scans that are listed one by one.
_SHOWN = 20


def sync(
    *,
    options: SyncOptions = SyncOptions(),
    incremental: Annotated[bool, Parameter(help="Fetch only new and recent posts (GRAMHOUSE_SYNC_MODE).")] = False,
    full_refresh: Annotated[bool, Parameter(help="Fetch all posts of every account (GRAMHOUSE_SYNC_MODE).")] = False,
    plan: Annotated[bool, Parameter(help="Show what would be requested now and why, without a request.")] = False,
    run: RunArguments = RunArguments(),
) -> Answer:
    """Sync all that the API key can see, and publish a snapshot.

    An interrupted run is resumed: saved pages are not fetched again.

    Exit codes: 0 complete, 1 failed, 2 wrong usage or configuration, 3 partial, 4 the warehouse is held by
    another process.
    """
    if incremental and full_refresh:
        raise SettingsError("--incremental and --full-refresh cannot be combined. Fix: use one of them.")
    mode = "incremental" if incremental else "full_refresh" if full_refresh else None
    options = options.model_copy(update={"mode": mode})
    return _plan(options, run) if plan else _run(options, run)


def _plan(options: SyncOptions | BackfillOptions, run: RunArguments) -> Answer:
    from flows.engine.plan import make_plan

    settings = load(**run.settings(options.expert))
    made = make_plan(RunRequest(settings, options), now=SystemClock().now())
    return Answer(made.document(), _describe_plan(made))


def _describe_plan(plan: "Plan") -> Iterator[RenderableType]:
    """Yield what a run would do: its scans by reason, and of few accounts each scan."""
    if plan.groups():
        yield from listing(plan.groups(), "surface scan reason scans requests")
    if 0 < len(plan.scans) <= _SHOWN:
        dues = "due_at due_reason" if plan.is_due else ""
        columns = f"ig_username surface scan reason requests {dues} resume_after account_id"
        yield ""
        yield from listing([asdict(scan) for scan in plan.scans], columns, prose="ig_username")
    yield str(plan)


def backfill(
    *,
    options: BackfillOptions = BackfillOptions(),
    expired_since: Annotated[
        str | None,
        Parameter(
            metavar="TIME", help="Accounts whose token was expired at any time since then: 2d, 36h, or a date (UTC)."
        ),
    ] = None,
    run: RunArguments = RunArguments(),
) -> Answer:
    """Scan selected accounts again from the first page.

    History and first_seen_at are kept. An interrupted sync keeps its progress. Exit codes are those of
    `gramhouse sync`; 0 even when no account matches, and 3 when the tokens of all accounts that match have expired.
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
    from flows.scale import run_with_workers
    from flows.sync import TRACKED

    async def work() -> "RunReport":
        # Prefect has replaced the signal handlers.
        take_signals()
        settings = await load_with_credentials(run.settings(options.expert))
        return await run_with_workers(RunRequest(settings, options), TRACKED, progress)

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


def _log_end(report: "RunReport") -> None:
    from flows.reporting.message import to_message

    for warning in report.warnings:
        notices.warning(f"{warning.text}.", extra={"code": warning.code})
    level = {RunState.COMPLETE: logging.INFO, RunState.FAILED: logging.ERROR}.get(report.state, logging.WARNING)
    notices.log(level, to_message(report), extra=report.stopped_by.facts if report.stopped_by else None)


def _run(options: SyncOptions | BackfillOptions, run: RunArguments) -> Answer:
    """Run a sync or backfill with its retries; return the report of the last attempt."""
    from flows.cli.run import describe_report, watch
    from flows.engine.retrying import repeat
    from flows.reporting.message import to_document

    clock, progress, is_text = SystemClock(), Progress(), run.log_format == "text"

    def work(take_signals: Callable[[], None]) -> "Coroutine[Any, Any, RunReport]":
        async def attempt() -> "RunReport":
            async with watch(progress, on_terminal=err.is_terminal and is_text):
                if api:
                    return await _attempt_tracked(options, run, progress, take_signals)
                from flows.scale import run_with_workers

                return await run_with_workers(RunRequest(settings, options), progress=progress)

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
        _log_end(report)
    return Answer(to_document(report), describe_report(report), report.exit_code)
