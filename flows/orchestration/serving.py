"""The process that serves the deployments. `gramhouse up` starts it next to Prefect's server, and stops it."""

import asyncio
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID

from prefect.client.orchestration import PrefectClient, get_client
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.runner import Runner

from flows.config.errors import SettingsError, TrackerUnreachable
from flows.config.settings import Settings, load
from flows.orchestration.automations import apply
from flows.orchestration.credentials import ApiCredentials
from flows.orchestration.deployments import deployments
from flows.orchestration.flow_run import check_tracker
from flows.orchestration.interruptions import end_runs, mark_dead, start_missed_runs
from flows.orchestration.schedules import NOTE, READY

# Seconds between polls. The server is on this machine, usually for us alone, so it may be polled often.
_ASK_EVERY = 3.0

# One nightly run, one stories run, and a few backfills that wait for the writer lock.
_RUNS_AT_ONCE = 8

_PAUSE = 0.1


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _print_line(line: str) -> None:
    _say(f"{NOTE}{line}")


async def _run_until(runner: Runner, stop: asyncio.Event, client: PrefectClient, served: dict[str, UUID]) -> None:
    serving = asyncio.create_task(runner.start())
    # When it starts, the runner installs its own SIGTERM handler, which would end its runs one after the other.
    await asyncio.sleep(0)
    _listen(stop)
    # The runner has only an attribute for this, and nothing to await.
    while not runner.started and not serving.done():  # noqa: ASYNC110
        await asyncio.sleep(_PAUSE)
    if runner.started:
        _say(READY)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        stopping.cancel()
        await serving
        return
    try:
        await end_runs(client, served.values(), _say)
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


def _listen(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


async def _as_left(client: PrefectClient, wanted: RunnerDeployment) -> RunnerDeployment:
    """Keep a deployment paused that a user paused in the UI: serving would resume it."""
    try:
        present = await client.read_deployment_by_name(f"{wanted.flow_name}/{wanted.name}")
    except ObjectNotFound:
        return wanted
    wanted.paused = present.paused
    stopped = bool(present.schedules) and not any(schedule.active for schedule in present.schedules)
    for schedule in wanted.schedules or ():
        schedule.active = not stopped
    return wanted


async def serve(settings: Settings, *, alone: bool) -> None:
    """Serve the deployments until a signal arrives; running flow runs are then ended, and marked as interrupted.

    `alone`: no other process serves them, so runs that are marked as running at the start are dead.
    """
    stop = asyncio.Event()
    await check_tracker()
    try:
        for line in await apply(settings):
            _say(line)
    except SettingsError as error:
        # The user can still create the block, for which the server must continue to run.
        _print_line(str(error))
    # Schedules stay active when this ends: the server ends as well, or another process serves them.
    runner = Runner(name="gramhouse", limit=_RUNS_AT_ONCE, query_seconds=_ASK_EVERY, pause_on_shutdown=False)
    async with get_client() as client:
        # Makes the UI show the form of this block type.
        await ApiCredentials.register_type_and_schema()
        wanted = [await _as_left(client, each) for each in await deployments(settings)]
        served = {each.name: await runner.aadd_deployment(each) for each in wanted}
        if alone:
            await mark_dead(client, served.values(), _print_line)
        switched_on = {
            each.name: served[each.name]
            for each in wanted
            if not each.paused and any(schedule.active for schedule in each.schedules or ())
        }
        await start_missed_runs(client, switched_on, datetime.now(UTC), _print_line)
        await _run_until(runner, stop, client, served)


def main(arguments: list[str]) -> int:
    """Serve the deployments of the settings; return the exit code."""
    try:
        asyncio.run(serve(load(), alone="--alone" in arguments))
    except (SettingsError, TrackerUnreachable) as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
