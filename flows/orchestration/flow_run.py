"""A run as a Prefect flow run: its settings, its retries, and the state in which it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from random import SystemRandom
from typing import Any

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run
from prefect.states import Cancelled, Completed, Failed

from connectors.buckets import BucketError
from connectors.warehouse.storage.errors import (
    OtherService,
    SnapshotMissing,
    SnapshotUnreadable,
    WarehouseBusy,
    WarehouseUnusable,
)
from flows.clock import SystemClock
from flows.config.errors import ClusterLost, SettingsError, TrackerUnreachable, error_line
from flows.config.options import BackfillOptions, SyncOptions
from flows.config.prefect_environment import prefect_api_url
from flows.engine.resources import open_resources
from flows.engine.retrying import DELAYS, Retry, repeat
from flows.engine.run_request import RunRequest
from flows.orchestration.credentials import load_with_credentials
from flows.orchestration.notify import notify, notify_failure
from flows.orchestration.processes import end_with_parent
from flows.pipeline import Steps, run_sync
from flows.reporting.message import to_message
from flows.reporting.progress import notices
from flows.reporting.recording import record_failed_start
from flows.reporting.run_report import RunReport
from flows.scale import open_workers
from models.runs import RunState, mostly_incomplete
from models.selection import NothingChosen, SelectionError

Options = SyncOptions | BackfillOptions

# Errors of the user who started the run and sees the message immediately, so no notification is sent.
_ASKED_WRONGLY = (SelectionError, SnapshotMissing, SnapshotUnreadable)

_OF_A_USER = (*_ASKED_WRONGLY, SettingsError, OtherService, WarehouseUnusable, BucketError, ClusterLost, OSError)


async def check_tracker() -> None:
    """Ask the configured Prefect API for its version. Raises TrackerUnreachable also if it is another one's."""
    what = "does not answer"
    try:
        async with get_client() as client:
            # Not its health check, which needs no login.
            await client.api_version()
            what = "is not the API of a Prefect server of this version"
            await client.raise_for_api_version_mismatch()
    except Exception as error:
        refused = isinstance(error, PrefectHTTPStatusError) and error.response.status_code in {401, 403}
        raise TrackerUnreachable(prefect_api_url(), what, refused=refused) from error


async def run_in_flow(options: Options, steps: Steps) -> State[RunReport]:
    """Run a sync or backfill in its flow run, and again if it failed for a passing reason; return the final state.

    The process waits for the retry: an interruption meanwhile is a crash, and the next run resumes what is saved.
    """
    if deployment.id:
        end_with_parent()

    activity, chosen = f"gramhouse {options.kind}", options.expert.model_dump()

    async def attempt() -> RunReport:
        with record_failed_start(activity, chosen):
            settings = await load_with_credentials(chosen)
            request = RunRequest(settings, options)
            async with (
                open_resources(settings, activity) as resources,
                open_workers(request) as workers,
            ):
                return await run_sync(request, replace(resources, scan_account=workers), steps)

    # Without a deployment, a person waits for the end.
    return await _end_in_state(_repeat(attempt, len(DELAYS) if deployment.id else 0))


async def track(options: Options, work: Callable[[], Awaitable[RunReport]]) -> RunReport:
    """Do a command's work in a flow run of this process; return its report, or raise the error that ended it.

    Raises TrackerUnreachable if the Prefect API does not answer. If it fails during the run, one line reports that,
    and the result is the same.
    """
    await check_tracker()
    running: asyncio.Future[RunReport] | None = None

    @flow(name=options.kind, flow_run_name=run_name, persist_result=False)
    async def tracked(options: Options) -> State[RunReport]:  # noqa: ARG001 - the parameter that Prefect shows
        nonlocal running
        running = asyncio.ensure_future(_repeat(work, 0))
        return await _end_in_state(running)

    try:
        await tracked(options, return_state=True)
    except Exception as failure:
        # The result is in the warehouse: the run took place, even though Prefect did not receive its end.
        if running is None or not running.done():
            raise
        reason = str(failure) or type(failure).__name__
        notices.warning(f"Prefect did not receive the result of the run ({reason}); the report below is correct.")
    if running is None:
        raise TypeError("the flow run ended without a report")
    return await running


def _repeat(attempt: Callable[[], Awaitable[RunReport]], limit: int) -> Awaitable[RunReport]:
    return repeat(attempt, limit, sleep=SystemClock().sleep, random=SystemRandom().random, announce=_announce)


async def _announce(report: RunReport, retry: Retry | None) -> None:
    get_run_logger().info("%s", f"{retry}. {to_message(report)}" if retry else to_message(report))
    await notify(report, retry)


async def _end_in_state(run: Awaitable[RunReport]) -> State[RunReport]:
    try:
        return final_state(await run)
    except Exception as error:  # noqa: BLE001 - raised again unless a user can fix it
        return await end_flow_run(error)


def final_state(report: RunReport) -> State[RunReport]:
    """Return the final state of the flow run: FAILED if the run is, or if more than half of its scans are incomplete.

    Its message begins with what is wrong, and the fix.
    """
    lost = report.state is RunState.FAILED or (report.state is RunState.PARTIAL and mostly_incomplete(report.outcomes))
    return (Failed if lost else Completed)(message=to_message(report), data=report)


async def end_flow_run(error: Exception) -> State[Any]:
    """Return the state of a flow run that an error ended. Raises the error if a user cannot fix it."""
    if isinstance(error, NothingChosen):
        return Completed(message=str(error))
    if isinstance(error, WarehouseBusy):
        # Not a failure: another run is in progress.
        return Cancelled(message=str(error))
    if not isinstance(error, _OF_A_USER):
        await notify_failure(f"{type(error).__name__}: {error}")
        raise error
    if not isinstance(error, _ASKED_WRONGLY):
        await notify_failure(error_line(error))
    return Failed(message=error_line(error))


def run_name() -> str:
    """Name a flow run after its deployment (or else its flow) and due time, such as `nightly 2026-03-01 02:15`."""
    due = flow_run.scheduled_start_time or datetime.now(UTC)
    return f"{deployment.name or flow_run.flow_name} {due:%Y-%m-%d %H:%M}"
