"""The inside of a flow run of ours: the run's body, with each of its steps as a named task run."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.events import emit_event
from prefect.exceptions import Pause
from prefect.logging import get_run_logger
from prefect.runtime import deployment, flow_run

from flows.config.options import RunOptions
from flows.config.settings import Settings
from flows.engine.clock import SystemClock
from flows.engine.pipeline import RunReport, run_sync
from flows.engine.resources import open_resources
from flows.engine.retrying import DELAYS, next_retry
from flows.engine.run_context import Counters
from flows.engine.run_request import RunRequest
from flows.orchestration.conclusion import awaiting_retry, conclude, final_state
from flows.orchestration.credentials import load_with_credentials
from flows.orchestration.notify import notify, progress
from flows.orchestration.tracking import watching
from flows.reporting.report import sentence
from flows.tasks import TASKS

T = TypeVar("T")

# The process of a flow run ends, and the run does not; deployments/automations.yaml expects it.
LEFT = "gramhouse.flow-run.left"


def run_name() -> str:
    """Name a flow run by its deployment, or else its flow, and when it was due: `nightly 2026-03-01 02:15`."""
    due = flow_run.scheduled_start_time or datetime.now(UTC)
    return f"{deployment.name or flow_run.flow_name} {due:%Y-%m-%d %H:%M}"


async def carry_out(options: RunOptions, activity: str, build: Callable[[Settings], RunRequest]) -> State[RunReport]:
    """Carry out a run, to be called in a flow run; return the state it ends in, with its report for data."""
    state = await conclude(_carry_out(options, activity, build))
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


async def _carry_out(options: RunOptions, activity: str, build: Callable[[Settings], RunRequest]) -> State[RunReport]:
    log = get_run_logger()
    watcher = watching.get()
    counters = watcher.counters if watcher else Counters()

    def say(line: str) -> None:
        log.info("%s", line)
        if watcher is not None:
            watcher.say(line)

    typed = watcher.typed if watcher else {}
    settings = await load_with_credentials({**options.chosen(), **typed})
    request = build(settings)
    # The end is sent to Prefect after the warehouse is closed, so that the next run is not locked out.
    async with progress(counters, SystemClock()):
        async with open_resources(settings, activity, say=say) as resources:
            report = await run_sync(request, resources, steps=TASKS, counters=counters, say=say)
        if watcher is not None:
            watcher.ended = report
    log.info("%s", sentence(report))
    # Without a deployment, no process would start the retry.
    limit = len(DELAYS) if deployment.id else 0
    retry = next_retry(report, flow_run.run_count - 1, limit, resources.random)
    # The run is complete; a signal ends only the notifications.
    with suppress(asyncio.CancelledError):
        await notify(report, retry, report_url=settings.report_url)
    return final_state(report) if retry is None else awaiting_retry(report, retry, now=resources.clock.now())
