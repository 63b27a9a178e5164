"""Serves the deployments of deployments/prefect.yaml with Prefect's runner: the main part of `gramhouse up`."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psutil
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import ConcurrencyLimitConfig, State, StateType
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.flows import load_flow_from_entrypoint
from prefect.runner import Runner
from prefect.schedules import Cron
from prefect.states import Cancelled, Scheduled
from prefect.types.entrypoint import EntrypointType

from flows.config.errors import SettingsError, TrackerUnreachable
from flows.config.settings import Settings
from flows.config.tracker import prefect_api_url
from flows.orchestration.automations import apply
from flows.orchestration.credentials import ApiCredentials
from flows.orchestration.flow_run import check_tracker
from flows.orchestration.processes import PrefectServer

if TYPE_CHECKING:
    from prefect import Flow

# The fields of a deployment in the file that are passed on as they are.
_FIELDS = ("name", "description", "tags", "parameters", "enforce_parameter_schema")

# Seconds between polls. The server is on this machine, usually for us alone, so it may be polled often.
_ASK_EVERY = 3.0

# One nightly run, one stories run, and a few backfills that wait for the writer lock.
_RUNS_AT_ONCE = 8

# Seconds. A flow run needs up to ten to close its warehouse.
_PATIENCE = 12.0
_PAUSE = 0.2


async def deployments(settings: Settings) -> list[RunnerDeployment]:
    """Return all deployments with the schedules of the settings, in the order of the file. They are not applied yet."""
    text = resources.files("deployments").joinpath("prefect.yaml").read_text(encoding="utf-8")
    crons = {"nightly": settings.nightly, "stories": settings.stories}
    made = []
    for each in yaml.safe_load(text)["deployments"]:
        options, limit, cron = each["parameters"]["options"], each.get("concurrency_limit"), crons.get(each["name"])
        if "busy_wait" in settings.model_fields_set:
            options.get("expert", options)["busy_wait"] = settings.busy_wait
        flow: Flow[..., Any] = load_flow_from_entrypoint(each["entrypoint"], use_placeholder_flow=False)
        deployment = await flow.ato_deployment(
            **{field: each[field] for field in _FIELDS},
            schedule=Cron(cron, timezone=settings.time_zone) if cron else None,
            concurrency_limit=ConcurrencyLimitConfig(**limit) if limit else None,
            # By module, not by file, so that an installed package runs whichever folder `up` was started in.
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        made.append(deployment)
    return made


async def _as_left(wanted: RunnerDeployment) -> RunnerDeployment:
    """Keep a deployment paused that a user paused in the UI: serving would resume it."""
    try:
        async with get_client() as client:
            present = await client.read_deployment_by_name(f"{wanted.flow_name}/{wanted.name}")
    except ObjectNotFound:
        return wanted
    wanted.paused = present.paused
    stopped = bool(present.schedules) and not any(schedule.active for schedule in present.schedules)
    for schedule in wanted.schedules or ():
        schedule.active = not stopped
    return wanted


async def _resume_killed_runs(deployments: list[UUID]) -> None:
    """Schedule the runs again that are shown as under way: their processes ended with the last serving process."""
    served = DeploymentFilter.model_validate({"id": {"any_": deployments}})
    under_way = FlowRunFilter.model_validate({"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}})
    async with get_client() as client:
        for run in await client.read_flow_runs(deployment_filter=served, flow_run_filter=under_way):
            state: State[None] = Scheduled(
                name="Interrupted", message="Its process was killed. Saved pages are kept; it resumes automatically."
            )
            if run.state_type is StateType.CANCELLING:
                state = Cancelled(message="Its process was killed before it was cancelled. Saved pages are kept.")
            await client.set_flow_run_state(run.id, state)


async def _end_flow_runs() -> None:
    """End all flow runs, which are children of this process; each schedules itself again (flow_run.py)."""
    children = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            # Prefect's server has a process group of its own.
            if os.getpgid(child.pid) == os.getpgrp():
                child.terminate()
                children.append(child)
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            # psutil's own wait would take the exit codes, which the runner needs.
            while any(child.is_running() for child in children):  # noqa: ASYNC110 - nothing to await
                await asyncio.sleep(_PAUSE)


async def serve(
    settings: Settings, server: PrefectServer | None, ready: Callable[[Sequence[RunnerDeployment], list[str]], None]
) -> None:
    """Serve the deployments until a signal arrives. `server` is the Prefect server that this process started, if any.

    `ready` is called with the deployments, and with warnings for the user. Raises ProcessError if that server ends or
    no longer answers, and TrackerUnreachable if another one does not.
    """
    await check_tracker()
    notes = []
    try:
        await apply(settings)
    except SettingsError as error:
        # The user can still create the block, for which the server must continue to run.
        notes.append(str(error))
    # Makes the UI show the form of this block type.
    await ApiCredentials.register_type_and_schema()
    # Schedules stay active when this ends: the server ends as well, or another process serves them.
    runner = Runner(name="gramhouse", limit=_RUNS_AT_ONCE, query_seconds=_ASK_EVERY, pause_on_shutdown=False)
    served = [await _as_left(each) for each in await deployments(settings)]
    ids = [await runner.aadd_deployment(each) for each in served]
    if server is not None:
        await _resume_killed_runs(ids)
    ready(served, notes)
    serving = asyncio.create_task(runner.start())
    # When it starts, the runner installs its own SIGTERM handler, which would cancel its runs.
    await asyncio.sleep(0)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # With nohup, this must survive the end of its terminal.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop.set)
    while not (stop.is_set() or serving.done() or (server and server.process.poll() is not None)):  # noqa: ASYNC110
        await asyncio.sleep(_PAUSE)
    await _end_flow_runs()
    serving.cancel()
    [failure] = await asyncio.gather(serving, return_exceptions=True)
    if server is not None and server.process.poll() is not None:
        raise server.error(f"ended with code {server.process.returncode}")
    # The runner gives up after three failed polls.
    if isinstance(failure, Exception):
        what = "no longer answers"
        raise (server.error(what) if server else TrackerUnreachable(prefect_api_url(), what)) from failure
