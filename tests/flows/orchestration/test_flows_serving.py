"""The process that serves the deployments: the state on the Prefect server while it runs and after a signal."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.config.settings import load
from flows.orchestration import serving
from flows.orchestration.deployments import deployments
from flows.orchestration.processes import free_port
from flows.orchestration.schedules import PLANS, READY
from tests.prefect_api import ask

# Prefect's client leaves connections to the garbage collector.
LEFT_OPEN = [f"ignore:{kind}" for kind in ("unclosed:ResourceWarning", ":pytest.PytestUnraisableExceptionWarning")]
pytestmark = [pytest.mark.anyio, pytest.mark.prefect, *map(pytest.mark.filterwarnings, LEFT_OPEN)]

SECONDS = 60.0


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings whose schedules have no runs soon."""
    settings = {
        "BASE_URL": "http://127.0.0.1:9",
        "API_KEY": "a-key",
        "NIGHTLY": "0 0 29 2 *",
        "STORIES": "0 12 29 2 *",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"GRAMHOUSE_{name}", value)


@pytest.fixture
def api(tracker: str, address: None) -> Iterator[str]:  # noqa: ARG001
    """The API of the session's server. Deployments are deleted at the end: the server would schedule their runs."""
    yield tracker
    for each in deployed(tracker).values():
        ask(tracker, f"deployments/{each['id']}", method="DELETE")


def deployed(api: str) -> dict[str, Any]:
    return {each["name"]: each for each in ask(api, "deployments/filter")}


@asynccontextmanager
async def served(monkeypatch: pytest.MonkeyPatch, *, alone: bool = True) -> AsyncIterator[list[str]]:
    """Serve during the block, until a signal at its end; yield the output when the process is ready."""
    said: list[str] = []
    ready = asyncio.Event()

    def say(line: str) -> None:
        said.append(line)
        if line == READY:
            ready.set()

    monkeypatch.setattr(serving, "_say", say)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    process = asyncio.create_task(serving.serve(load(), alone=alone))
    waiting = asyncio.create_task(ready.wait())
    try:
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({process, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if process.done():
                await process
            yield said
            os.kill(os.getpid(), signal.SIGTERM)
            await process
    finally:
        waiting.cancel()
        process.cancel()
        for number, handler in handlers.items():
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, handler)


async def test_every_plan_is_deployed_and_stays_scheduled_when_a_signal_ends_it(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(monkeypatch) as said:
        assert deployed(api).keys() == {plan.name for plan in PLANS}
    assert said[-1] == READY
    found = deployed(api)
    assert not any(each["paused"] for each in found.values())
    schedules = {name: each["schedules"] for name, each in found.items()}
    assert {name: [one["active"] for one in several] for name, several in schedules.items()} == {
        plan.name: [True] if plan.when else [] for plan in PLANS
    }
    assert schedules["nightly"][0]["schedule"]["cron"] == "0 0 29 2 *"


async def test_a_manually_paused_deployment_stays_paused(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(monkeypatch):
        found = deployed(api)
        [schedule] = found["stories"]["schedules"]
        ask(api, f"deployments/{found['nightly']['id']}/pause_deployment")
        path = f"deployments/{found['stories']['id']}/schedules/{schedule['id']}"
        ask(api, path, {"active": False}, method="PATCH")
    async with served(monkeypatch):
        found = deployed(api)
        assert {name for name, each in found.items() if each["paused"]} == {"nightly"}
        assert [one["active"] for one in found["stories"]["schedules"]] == [False]


@pytest.mark.parametrize(("alone", "state"), [(True, "CRASHED"), (False, "RUNNING")])
async def test_a_run_that_no_process_can_be_doing_is_marked_as_crashed(
    api: str, monkeypatch: pytest.MonkeyPatch, *, alone: bool, state: str
) -> None:
    nightly = next(each for each in await deployments(load()) if each.name == "nightly")
    path = f"deployments/{await nightly.aapply()}/create_flow_run"
    run = ask(api, path, {"state": {"type": "RUNNING"}})
    async with served(monkeypatch, alone=alone) as said:
        assert ask(api, f"flow_runs/{run['id']}", method="GET")["state"]["type"] == state
        assert any(run["name"] in line for line in said) == alone
        # Otherwise the process would wait for it at its end.
        ask(api, f"flow_runs/{run['id']}", method="DELETE")


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize("wrong", [None, "GRAMHOUSE_NIGHTLY"])
def test_errors_that_prevent_serving_are_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrong: str | None
) -> None:
    no_server = f"http://127.0.0.1:{free_port()}/api"
    monkeypatch.setenv("PREFECT_API_URL", no_server)
    if wrong:
        monkeypatch.setenv(wrong, "often")
    with temporary_settings({PREFECT_API_URL: no_server}):
        assert serving.main([]) == 1
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{wrong}: " if wrong else f"{no_server} does not answer. Fix: ")
