"""A run as a Prefect flow run: its settings, its retries, and the state in which it ends."""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import SystemRandom
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run
from prefect.states import Cancelled, Completed, Failed

from connectors.buckets.address import BucketError
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
from flows.pipeline import Steps, run_sync
from flows.reporting.message import to_message
from flows.reporting.progress import Progress, notices
from flows.reporting.recording import record_failed_start
from flows.reporting.run_report import RunReport
from flows.scale import open_workers
from models.runs import RunState, mostly_incomplete
from models.selection import NothingChosen, SelectionError


@dataclass(slots=True)
class Caller:
    """The command that calls a flow in its own process.

    `take_signals` is called in the flow run before its work, because Prefect replaces signal handlers. `chosen` are
    settings that only the command line may change. `ended` is how the run ended, even if Prefect fails.
    """

    progress: Progress
    take_signals: Callable[[], None] = lambda: None
    chosen: Mapping[str, object] = field(default_factory=dict)
    ended: RunReport | Exception | None = None


# Not a parameter of the flows: Prefect stores those, and whoever starts a deployment may set them.
_CALLER: ContextVar[Caller | None] = ContextVar("_CALLER", default=None)


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


async def call_flow(run_flow: Callable[[], Awaitable[object]], caller: Caller) -> RunReport:
    """Run a flow in this process; return the report of its run, or raise the error that ended it.

    Raises TrackerUnreachable if the Prefect API does not answer. If it fails during the run, one line reports that,
    and the result is the same.
    """
    await check_tracker()
    _CALLER.set(caller)
    try:
        await run_flow()
    except Exception as failure:
        # The result is in the warehouse: the run took place, even though Prefect did not receive its end.
        if caller.ended is None:
            raise
        reason = str(failure) or type(failure).__name__
        notices.warning(f"Prefect did not receive the result of the run ({reason}); the report below is correct.")
    if isinstance(caller.ended, Exception):
        raise caller.ended
    if caller.ended is None:
        raise TypeError("the flow run ended without a report")
    return caller.ended


async def run_in_flow(options: SyncOptions | BackfillOptions, steps: Steps) -> State[RunReport]:
    """Run a sync or backfill in a flow run, and again if it failed for a passing reason; return its final state.

    The process waits for the retry: an interruption meanwhile is a crash, and the next run resumes what is saved.
    """
    caller = _CALLER.get() or Caller(Progress())
    caller.take_signals()
    chosen = {**options.expert.model_dump(), **caller.chosen}
    activity = f"gramhouse {'sync' if isinstance(options, SyncOptions) else 'backfill'}"
    report_url = None

    async def attempt() -> RunReport:
        nonlocal report_url
        with record_failed_start(activity, chosen):
            settings = await load_with_credentials(chosen)
            report_url = settings.report_url
            request = RunRequest(settings, options)
            async with (
                open_resources(settings, activity, caller.progress) as resources,
                open_workers(request) as workers,
            ):
                return await run_sync(request, replace(resources, scan_account=workers), steps)

    async def announce(report: RunReport, retry: Retry | None) -> None:
        get_run_logger().info("%s", f"{retry}. {to_message(report)}" if retry else to_message(report))
        await notify(report, retry, report_url=report_url)

    # Without a deployment, a person waits for the end.
    limit, random = len(DELAYS) if deployment.id else 0, SystemRandom().random
    try:
        with notices_in_flow_run():
            report = await repeat(attempt, limit, sleep=SystemClock().sleep, random=random, announce=announce)
    except Exception as error:  # noqa: BLE001 - raised again unless a user can fix it
        caller.ended = error
        return await end_flow_run(error)
    caller.ended = report
    return final_state(report)


def final_state(report: RunReport) -> State[RunReport]:
    """Return the final state of the flow run: FAILED if the run is, or if more than half of its scans are incomplete.

    Its message begins with what is wrong, and the fix.
    """
    lost = report.state is RunState.FAILED or (report.state is RunState.PARTIAL and mostly_incomplete(report.outcomes))
    return (Failed if lost else Completed)(message=to_message(report), data=report)


# Errors of the user who started the run and sees the message immediately, so no notification is sent.
_ASKED_WRONGLY = (SelectionError, SnapshotMissing, SnapshotUnreadable)

_OF_A_USER = (*_ASKED_WRONGLY, SettingsError, OtherService, WarehouseUnusable, BucketError, ClusterLost, OSError)


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


class _FlowRunLog(logging.Handler):
    """Writes notices to the log of the current flow run."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a notice."""
        get_run_logger().info("%s", record.getMessage())


@contextmanager
def notices_in_flow_run() -> Iterator[None]:
    """Write notices of the block to the log of the current flow run, too."""
    handler = _FlowRunLog()
    notices.addHandler(handler)
    try:
        yield
    finally:
        notices.removeHandler(handler)
