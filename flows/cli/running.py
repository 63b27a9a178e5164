"""Running a sync or backfill from the command line: tracked by Prefect if its API is configured, otherwise directly."""

import json
import logging
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from flows.cli.options import RunArguments
from flows.cli.output import json_log
from flows.cli.output.run import describe_report, watch
from flows.cli.output.terminal import Answer, Lines, clean, err, line_time
from flows.cli.signals import run_until_signalled
from flows.clock import SystemClock
from flows.config.options import BackfillOptions, SyncOptions
from flows.config.prefect_environment import prefect_api_url
from flows.config.setting_sources import exposed
from flows.config.settings import Settings
from flows.engine.resources import open_resources
from flows.engine.retrying import Retry, repeat
from flows.engine.run_request import RunRequest
from flows.reporting.exit_code import EXIT_OF
from flows.reporting.message import to_json, to_message
from flows.reporting.progress import Progress, notices
from flows.reporting.run_report import RunReport
from flows.reporting.words import count
from models.runs import RunState

if TYPE_CHECKING:
    from flows.pipeline import Steps


async def _run(request: RunRequest, activity: str, progress: Progress, steps: "Steps | None" = None) -> RunReport:
    from flows.pipeline import DIRECT, run_sync
    from flows.scale import open_workers

    async with open_resources(request.settings, activity, progress) as resources, open_workers(request) as workers:
        return await run_sync(request, replace(resources, scan_elsewhere=workers), steps or DIRECT)


async def _run_tracked(
    options: SyncOptions | BackfillOptions,
    run: RunArguments,
    activity: str,
    progress: Progress,
    take_signals: Callable[[], None],
) -> RunReport:
    from flows.orchestration.processes import PREFECT_CLIENT, import_prefect

    # The terminal has its own report; Prefect's log lines are only sent to its server.
    import_prefect({**PREFECT_CLIENT, "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"})
    from flows.orchestration.credentials import load_with_credentials
    from flows.orchestration.flow_run import track
    from flows.sync import TRACKED

    async def work() -> RunReport:
        # Prefect has replaced the signal handlers.
        take_signals()
        settings = await load_with_credentials({**options.expert.model_dump(), **run.addresses})
        return await _run(RunRequest(settings, options), activity, progress, TRACKED)

    return await track(options, work)


def _begin(activity: str, settings: Settings, run: RunArguments) -> str | None:
    """Say what begins; return the address of Prefect's API if it tracks the run. Raises SettingsError."""
    api, lines = prefect_api_url(), json_log.in_force()
    if api and settings.credentials is not None:
        # The block, which the run reads from Prefect's server, precedes the setting, but not the option.
        address = run.base_url or f"the service of block {settings.credentials}"
    else:
        address = settings.address()
        settings.key(), settings.network()
    if lines is None and run.verbose:
        json_log.log_to(Lines())
    elif lines is None:
        # The report has these warnings, counted by cause.
        logging.getLogger("flows.engine").setLevel(logging.ERROR)
    tracked = f", tracked by {clean(api)}" if api else ""
    err.print(f"{line_time()}[bold]{activity}[/] of {clean(address)}{tracked}.", soft_wrap=bool(lines))
    if warning := exposed():
        notices.warning(warning)
    return api


def _log_end(lines: json_log.JsonLines, report: RunReport) -> None:
    for warning in report.warnings:
        lines.say(f"{warning.text}.", logging.WARNING, {"code": warning.code})
    level = {RunState.COMPLETE: logging.INFO, RunState.FAILED: logging.ERROR}.get(report.state, logging.WARNING)
    lines.say(to_message(report), level, report.stopped_by.facts if report.stopped_by else {})


def run_command(options: SyncOptions | BackfillOptions, settings: Settings, run: RunArguments, *, what: str) -> Answer:
    """Run a sync or backfill with its retries; return the report of the last attempt.

    `what` is the name of the command.
    """
    activity, lines, clock = f"gramhouse {what}", json_log.in_force(), SystemClock()
    api = _begin(activity, settings, run)
    attempts: list[Progress] = []

    def work(take_signals: Callable[[], None]) -> Coroutine[Any, Any, RunReport]:
        async def attempt() -> RunReport:
            attempts.append(progress := Progress())
            if lines is not None:
                lines.progress = progress
            async with watch(progress):
                if api:
                    return await _run_tracked(options, run, activity, progress, take_signals)
                return await _run(RunRequest(settings, options), activity, progress)

        async def announce(report: RunReport, retry: Retry | None) -> None:
            # The flow run has replaced the signal handlers.
            take_signals()
            if retry is not None:
                at = clock.now() + timedelta(seconds=retry.seconds)
                notices.warning(f"The run ended {report.state.value}. {retry}, at {at:%H:%M:%S} UTC.")

        return repeat(attempt, run.retries, sleep=clock.sleep, random=SystemRandom().random, announce=announce)

    def advice() -> str:
        saved = count(sum(progress.pages for progress in attempts), "page")
        return f"{saved} saved. Fix: run the same command to resume."

    report = run_until_signalled(work, advice)
    if lines is not None:
        _log_end(lines, report)
    return Answer(json.loads(to_json(report)), describe_report(report), EXIT_OF[report.state], is_done=True)
