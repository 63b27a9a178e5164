"""A run as a Prefect flow run: its settings, its retries, what it sends to Prefect, and the state in which it ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import SystemRandom
from typing import Any

from prefect import flow
from prefect.artifacts import acreate_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.events import emit_event
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run
from prefect.states import Cancelled, Completed, Failed

from connectors.buckets import BucketError
from flows.clock import SystemClock
from flows.config.environment import prefect_api_url
from flows.config.errors import ClusterLost, SettingsError, TrackerUnreachable, error_line
from flows.config.options import BackfillOptions, SyncOptions
from flows.config.run_request import RunRequest
from flows.config.settings import load
from flows.engine.retrying import DELAYS, Retry, repeat
from flows.orchestration.credentials import load_with_credentials
from flows.orchestration.processes import end_with_parent
from flows.pipeline import Steps, start_run
from flows.process import prepare_process
from flows.reporting.message import failure_event, list_events, title, to_markdown, to_message
from flows.reporting.progress import notices
from flows.reporting.recording import record_failed_start
from flows.reporting.run_report import RunReport
from models.files import WarehouseBusy, WarehouseError, first_line
from models.runs import RunState, mostly_incomplete
from models.selection import NothingChosen, SelectionError

Options = SyncOptions | BackfillOptions

# Prefect's client retries for minutes if its server is down; a run that has ended does not wait that long.
_PATIENCE = 30.0

# Errors of one line that a user can fix.
_OF_USERS = (SelectionError, SettingsError, WarehouseError, BucketError, ClusterLost, OSError)


def run_name() -> str:
    """Name a flow run after its deployment (or else its flow) and due time, such as `nightly 2026-03-01 02:15`."""
    due = flow_run.scheduled_start_time or datetime.now(UTC)
    return f"{deployment.name or flow_run.flow_name} {due:%Y-%m-%d %H:%M}"


async def run_in_flow(options: Options, steps: Steps) -> State[Any]:
    """Run a sync or backfill in its flow run, and again if it failed for a passing reason; return the final state.

    The process waits for the retry: an interruption meanwhile is a crash, and the next run resumes what is saved.
    """
    if deployment.id:
        # pyarrow is imported already: the variables for it come from the process of `up`, and work pools have none.
        prepare_process()
        end_with_parent()

    async def attempt() -> RunReport:
        with record_failed_start(options.kind, options.expert.warehouse):
            settings = await load_with_credentials(options.expert.model_dump())
            return await start_run(RunRequest(settings, options), steps)

    # Without a deployment, a person waits for the end.
    return await end_in_state(_make(attempt, len(DELAYS) if deployment.id else 0))


async def check_tracker() -> None:
    """Ask the configured Prefect API for its version. Raises TrackerUnreachable also if it is another one's."""
    try:
        async with get_client() as client:
            # Not its health check, which needs no login.
            await client.api_version()
            await client.raise_for_api_version_mismatch()
    except Exception as error:
        raise TrackerUnreachable(
            f"{prefect_api_url() or 'The Prefect API'} does not answer as the API of a Prefect server of this version"
            f" ({first_line(error)}). Fix: start the server (`gramhouse up`; its address ends in /api), set"
            " PREFECT_API_AUTH_STRING or PREFECT_API_KEY if it has a login, or unset PREFECT_API_URL."
        ) from error


async def track(options: Options, work: Callable[[], Awaitable[RunReport]]) -> RunReport:
    """Do a command's work in a flow run of this process; return its report, or raise the error that ended it.

    Raises TrackerUnreachable if the Prefect API does not answer. If it fails during the run, one line reports that,
    and the result is the same.
    """
    await check_tracker()
    begun: list[asyncio.Future[RunReport]] = []

    # Not the flow of flows/sync.py: a deployment must not have the options that only a command has.
    @flow(name=options.kind, flow_run_name=run_name, persist_result=False)
    async def tracked(options: Options) -> State[Any]:  # noqa: ARG001 - the parameter that Prefect shows
        begun.append(asyncio.ensure_future(work()))
        return await end_in_state(_make(lambda: begun[0], 0))

    try:
        await tracked(options, return_state=True)
    except Exception as failure:
        # The result is in the warehouse: the run took place, even though Prefect did not receive its end.
        if not begun or not begun[0].done():
            raise
        why = first_line(failure)
        notices.warning(f"Prefect did not receive the result of the run ({why}); the report below is correct.")
    return await begun[0]


async def _make(attempt: Callable[[], Awaitable[RunReport]], retries: int) -> State[RunReport]:
    """Make a run, and so many retries of it if they may help; return the state of the last one."""
    random = SystemRandom().random
    return final_state(await repeat(attempt, retries, sleep=SystemClock().sleep, random=random, announce=announce))


def final_state(report: RunReport) -> State[RunReport]:
    """Return the final state of the flow run: FAILED if the run is, or if more than half of its scans are incomplete.

    Its message begins with what is wrong, and the fix.
    """
    lost = report.state is RunState.FAILED or (report.state is RunState.PARTIAL and mostly_incomplete(report.outcomes))
    return (Failed if lost else Completed)(message=to_message(report), data=report)


async def end_in_state(work: Awaitable[State[Any]]) -> State[Any]:
    """Await the work of a flow run; return its final state, also for an error. Raises one that a user cannot fix."""
    try:
        return await work
    except NothingChosen as nothing:
        return Completed(message=str(nothing))
    except WarehouseBusy as busy:
        # Not a failure: another run is in progress.
        return Cancelled(message=str(busy))
    except Exception as error:
        is_bug = not isinstance(error, _OF_USERS)
        text = f"{type(error).__name__}: {error}" if is_bug else error_line(error)
        async with _tolerated("the failure event"):
            emit_event(**failure_event(text))
        if is_bug:
            raise
        return Failed(message=text)


async def announce(report: RunReport, retry: Retry | None = None) -> None:
    """Send Prefect the events of a run that ended, and its page if it is not retried; log the retry."""
    why = str(retry) if retry else None
    if why:
        # Without one, the flow run ends in a state with this message, which Prefect logs.
        get_run_logger().info("%s. %s", why, to_message(report))
    async with _tolerated("the run's page"):
        # The events first: they are only queued, and cause the notifications.
        for event in list_events(report, why):
            emit_event(**event)
        if retry is None:
            page = to_markdown(report, load().report_url)
            await acreate_markdown_artifact(page, key="gramhouse-run", description=title(report))


@asynccontextmanager
async def _tolerated(what: str) -> AsyncIterator[None]:
    """Limit the time of the block, and say an error in it instead of raising it: none of Prefect may fail the run."""
    try:
        async with asyncio.timeout(_PATIENCE):
            yield
    except Exception as error:  # noqa: BLE001 - whatever Prefect raises
        why = first_line(error)
        notices.warning(f"Prefect did not receive {what} ({why}); the run is recorded in the warehouse.")
