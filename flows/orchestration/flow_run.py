"""A flow run: calling it from the command line, its body with each step as a task run, and its final state."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.events import emit_event
from prefect.exceptions import Pause, PrefectHTTPStatusError
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run
from prefect.states import AwaitingRetry, Cancelled, Completed, Crashed, Failed

from connectors.buckets.address import BucketError
from connectors.warehouse.storage.errors import (
    OtherService,
    SnapshotMissing,
    SnapshotUnreadable,
    WarehouseBusy,
    WarehouseUnusable,
)
from flows.config.errors import ClusterLost, SettingsError, TrackerUnreachable, error_line
from flows.config.options import BackfillOptions, SyncOptions
from flows.config.settings import prefect_api_url
from flows.engine.resources import build_request, open_resources
from flows.engine.retrying import DELAYS, Retry, next_retry
from flows.orchestration.credentials import load_with_credentials
from flows.orchestration.notify import notify, notify_failure
from flows.orchestration.tracker import tracked
from flows.pipeline import run_sync
from flows.reporting.message import state_name, to_message
from flows.reporting.progress import Progress, notices
from flows.reporting.recording import record_failed_start
from flows.reporting.run_report import RunReport
from models.runs import RunState, mostly_incomplete
from models.selection import NothingChosen, SelectionError


@dataclass(slots=True)
class Caller:
    """The command that calls a flow run in its own process.

    `begun` is called in the flow run before its work. `command_line_only` are settings that can only be changed on the
    command line: they are not parameters of the flow. `ended` is the result of the body, even if Prefect fails.
    """

    progress: Progress
    begun: Callable[[], None]
    command_line_only: Mapping[str, object] = field(default_factory=dict)
    ended: RunReport | BaseException | None = None


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


async def call_flow(options: SyncOptions | BackfillOptions, caller: Caller) -> RunReport:
    """Run a sync or a backfill as a flow run in this process; return the result of its body, or raise its error.

    Raises TrackerUnreachable if the Prefect API does not answer. If it fails during the run, one line reports that,
    and the result is the same.
    """
    await check_tracker()
    kind = "sync" if isinstance(options, SyncOptions) else "backfill"

    # Not the flow of flows/sync.py or flows/backfill.py: Prefect would store the caller if it were a parameter.
    @flow(name=kind, flow_run_name=run_name, persist_result=False, retries=0)
    async def called(options: SyncOptions | BackfillOptions) -> State[RunReport]:
        return await conclude(run_in_flow(options, f"gramhouse {kind}", caller), caller)

    try:
        await called(options, return_state=True)
    except Exception as failure:
        # The result is in the warehouse: the run took place, even though Prefect did not receive its end.
        if caller.ended is None:
            raise
        reason = str(failure) or type(failure).__name__
        notices.warning(f"Prefect did not receive the result of the run ({reason}); the report below is correct.")
    if caller.ended is None:
        raise TypeError("the flow run ended without a report")
    if isinstance(caller.ended, BaseException):
        raise caller.ended
    return caller.ended


T = TypeVar("T")

# The event that the process of a flow run ends, but not the run. It is used in deployments/automations.yaml.
LEFT = "gramhouse.flow-run.left"

_INTERRUPTED = "Stopped from outside. Saved pages are kept; "

# Later than `gramhouse up` needs to stop, so that it does not start the run again before.
_RESUMED_AFTER = timedelta(minutes=1)


def final_state(report: RunReport) -> State[RunReport]:
    """Return the final state of the flow run. Its name is derived from the run's state, and its data is the report.

    Its type, and therefore its colour, depends on the outcomes: a partial run of which more than half of the scans are
    incomplete is FAILED.
    """
    lost = report.state is RunState.FAILED or (report.state is RunState.PARTIAL and mostly_incomplete(report.outcomes))
    return (Failed if lost else Completed)(name=state_name(report), message=to_message(report), data=report)


def awaiting_retry(report: RunReport, retry: Retry, *, now: datetime) -> State[RunReport]:
    """Return the state of a flow run that Prefect restarts at the time of `retry`, without a process that waits."""
    at = now + timedelta(seconds=retry.seconds)
    return AwaitingRetry(scheduled_time=at, message=f"{retry}. {to_message(report)}")


# The first class that matches decides.
_ENDS: Mapping[type[BaseException], Callable[..., State[Any]]] = {
    **dict.fromkeys(
        (SettingsError, SelectionError, OtherService, SnapshotMissing, SnapshotUnreadable),
        partial(Failed, name="Invalid parameters"),
    ),
    **dict.fromkeys((WarehouseUnusable, BucketError, ClusterLost, OSError), Failed),
    NothingChosen: partial(Completed, name="Nothing to do"),
    # Not a failure: another run is in progress.
    WarehouseBusy: partial(Cancelled, name="Skipped: locked"),
}

# Errors of the user who started the run and sees the message immediately, so no notification is sent.
_ASKED_WRONGLY = (SelectionError, SnapshotMissing, SnapshotUnreadable)


def _listen(doing: asyncio.Task[Any], caller: Caller | None) -> None:
    """Make a signal cancel `doing`, once. Prefect's own SIGTERM handler would raise in whichever code is running."""
    if caller is not None:
        caller.begun()
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # With nohup, a run survives the end of its terminal.
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        # Handlers can only be set in the main thread.
        with suppress(RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(number, lambda: doing.cancelling() or doing.cancel())


async def _end_with_parent(doing: asyncio.Task[Any]) -> None:
    """Cancel `doing` when the process that started this one was killed, and end this process when it has closed.

    Prefect would repeat its reports for minutes, and confuse the run if it has been started again by then. It is not
    for a command, which goes on after the shell that started it.
    """
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - nothing to await
        await asyncio.sleep(1)
    doing.cancel()
    await asyncio.wait([doing])
    os._exit(1)


async def _interrupted() -> State[Any]:
    # Prefect itself may be shutting down. It will then notice the missing heartbeats.
    with suppress(Exception):
        async with get_client() as client:
            state = (await client.read_flow_run(flow_run.id)).state
        if state is not None and state.is_cancelling():
            return Cancelled(message=f"{_INTERRUPTED}run it again to resume.")
        if deployment.id:
            resumed = datetime.now(UTC) + _RESUMED_AFTER
            return AwaitingRetry(scheduled_time=resumed, message=f"{_INTERRUPTED}it resumes automatically.")
    return Crashed(message=f"{_INTERRUPTED}run it again to resume.")


async def conclude(work: Coroutine[Any, Any, State[T]], caller: Caller | None = None) -> State[T]:
    """Run the body of a flow run and return its final state. After a signal, everything that landed is kept.

    A flow run that waits for a retry is suspended. Raises only errors that a user cannot fix.
    """
    state = await _end_of(work, caller)
    if state.is_scheduled():
        async with get_client() as client:
            await client.set_flow_run_state(flow_run.id, state)
        # Sent after the last heartbeat, on the same connection: if a heartbeat were this run's last event, the
        # automation for dead runs would mark it as crashed while it waits for its retry.
        emit_event(LEFT, resource={"prefect.resource.id": f"prefect.flow-run.{flow_run.id}"})
        # Prefect's own way to suspend a run: this process ends, and the process that serves the deployment starts
        # another one when the retry is due. A retry by the engine would keep this process and its memory waiting.
        raise Pause(str(state.message), state=state)
    return state


async def _end_of(work: Coroutine[Any, Any, State[T]], caller: Caller | None) -> State[T]:
    doing = asyncio.ensure_future(work)
    _listen(doing, caller)
    parent_watch = asyncio.create_task(_end_with_parent(doing)) if caller is None else None
    try:
        return await doing
    except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001 - the caller needs it
        if caller is not None and caller.ended is None:
            caller.ended = error
        return await _state_after(error)
    finally:
        if parent_watch is not None:
            parent_watch.cancel()


async def _state_after(error: BaseException) -> State[Any]:
    """Return the state of a flow run that ended with an error. Raises the error if a user cannot fix it."""
    if isinstance(error, asyncio.CancelledError):
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        return await _interrupted()
    ends = next((end for kind, end in _ENDS.items() if isinstance(error, kind)), None)
    if ends is None:
        await notify_failure(f"{type(error).__name__}: {error}")
        raise error
    state = ends(message=error_line(error))
    if state.is_failed() and not isinstance(error, _ASKED_WRONGLY):
        await notify_failure(error_line(error))
    return state


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


async def run_in_flow(
    options: SyncOptions | BackfillOptions, activity: str, caller: Caller | None = None
) -> State[RunReport]:
    """Run a sync or backfill; return the state in which its flow run ends or waits for a retry. See `conclude`."""
    progress = caller.progress if caller else Progress()
    chosen = {**options.expert.model_dump(), **(caller.command_line_only if caller else {})}
    with notices_in_flow_run(), record_failed_start(activity, chosen, progress=progress):
        settings = await load_with_credentials(chosen)
        request = build_request(settings, options)
        async with open_resources(settings, activity) as resources:
            report = await run_sync(request, resources, track=tracked, progress=progress)
        if caller is not None:
            caller.ended = report
    get_run_logger().info("%s", to_message(report))
    # Without a deployment, no process would start the retry.
    limit = len(DELAYS) if deployment.id else 0
    retry = next_retry(report, flow_run.run_count - 1, limit, resources.random)
    # The run is complete; a signal ends only the notifications.
    with suppress(asyncio.CancelledError):
        await notify(report, retry, report_url=settings.report_url)
    return final_state(report) if retry is None else awaiting_retry(report, retry, now=resources.clock.now())
