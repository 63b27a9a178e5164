"""A run as a Prefect flow run: its settings, its retries, and the state in which it ends."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from random import SystemRandom
from typing import Any, TypeVar

from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run
from prefect.states import Cancelled, Completed, Failed

from connectors.buckets import BucketError
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseError, first_line
from flows.clock import SystemClock
from flows.config.errors import ClusterLost, SettingsError, TrackerUnreachable, error_line
from flows.config.options import BackfillOptions, SyncOptions
from flows.config.prefect_environment import prefect_api_url
from flows.engine.retrying import DELAYS, Retry, repeat
from flows.engine.run_request import RunRequest
from flows.orchestration.credentials import load_with_credentials
from flows.orchestration.notify import notify, notify_failure
from flows.orchestration.processes import end_with_parent
from flows.pipeline import Steps
from flows.process import prepare_process
from flows.reporting.message import to_message
from flows.reporting.progress import Progress, notices
from flows.reporting.recording import record_failed_start
from flows.reporting.run_report import RunReport
from flows.scale import run_with_workers
from models.runs import RunState, mostly_incomplete
from models.selection import NothingChosen, SelectionError

Options = SyncOptions | BackfillOptions

Result = TypeVar("Result")


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


async def make_run(
    options: Options, chosen: Mapping[str, object], steps: Steps, progress: Progress | None = None
) -> RunReport:
    """Make a run with the settings `chosen`, and address and key of their credentials block, if they name one."""
    return await run_with_workers(RunRequest(await load_with_credentials(chosen), options), steps, progress)


async def run_in_flow(options: Options, steps: Steps) -> State[RunReport]:
    """Run a sync or backfill in its flow run, and again if it failed for a passing reason; return the final state.

    The process waits for the retry: an interruption meanwhile is a crash, and the next run resumes what is saved.
    """
    if deployment.id:
        # pyarrow is imported already: the variables for it come from the process of `up`.
        prepare_process()
        end_with_parent()

    chosen = options.expert.model_dump()

    async def attempt() -> RunReport:
        with record_failed_start(options.kind, options.expert.warehouse):
            return await make_run(options, chosen, steps)

    # Without a deployment, a person waits for the end.
    return await end_in_state(_repeat(attempt, len(DELAYS) if deployment.id else 0), final_state)


async def track(options: Options, work: Callable[[], Awaitable[RunReport]]) -> RunReport:
    """Do a command's work in a flow run of this process; return its report, or raise the error that ended it.

    Raises TrackerUnreachable if the Prefect API does not answer. If it fails during the run, one line reports that,
    and the result is the same.
    """
    await check_tracker()
    begun: list[asyncio.Future[RunReport]] = []

    @flow(name=options.kind, flow_run_name=run_name, persist_result=False)
    async def tracked(options: Options) -> State[RunReport]:  # noqa: ARG001 - the parameter that Prefect shows
        begun.append(asyncio.ensure_future(_repeat(work, 0)))
        return await end_in_state(begun[0], final_state)

    try:
        await tracked(options, return_state=True)
    except Exception as failure:
        # The result is in the warehouse: the run took place, even though Prefect did not receive its end.
        if not begun or not begun[0].done():
            raise
        why = first_line(failure)
        notices.warning(f"Prefect did not receive the result of the run ({why}); the report below is correct.")
    return await begun[0]


def _repeat(attempt: Callable[[], Awaitable[RunReport]], limit: int) -> Awaitable[RunReport]:
    return repeat(attempt, limit, sleep=SystemClock().sleep, random=SystemRandom().random, announce=_announce)


async def _announce(report: RunReport, retry: Retry | None) -> None:
    get_run_logger().info("%s", f"{retry}. {to_message(report)}" if retry else to_message(report))
    await notify(report, retry)


def final_state(report: RunReport) -> State[RunReport]:
    """Return the final state of the flow run: FAILED if the run is, or if more than half of its scans are incomplete.

    Its message begins with what is wrong, and the fix.
    """
    lost = report.state is RunState.FAILED or (report.state is RunState.PARTIAL and mostly_incomplete(report.outcomes))
    return (Failed if lost else Completed)(message=to_message(report), data=report)


async def end_in_state(work: Awaitable[Result], to_state: Callable[[Result], State[Any]]) -> State[Any]:
    """Await the work of a flow run; return its final state. Raises an error that a user cannot fix."""
    try:
        return to_state(await work)
    except NothingChosen as nothing:
        return Completed(message=str(nothing))
    except WarehouseBusy as busy:
        # Not a failure: another run is in progress.
        return Cancelled(message=str(busy))
    except (SelectionError, SettingsError, WarehouseError, BucketError, ClusterLost, OSError) as error:
        await notify_failure(error_line(error))
        return Failed(message=error_line(error))
    except Exception as error:
        await notify_failure(f"{type(error).__name__}: {error}")
        raise


def run_name() -> str:
    """Name a flow run after its deployment (or else its flow) and due time, such as `nightly 2026-03-01 02:15`."""
    due = flow_run.scheduled_start_time or datetime.now(UTC)
    return f"{deployment.name or flow_run.flow_name} {due:%Y-%m-%d %H:%M}"
