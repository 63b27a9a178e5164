"""Serving the deployments: the state on the Prefect server meanwhile and after a signal."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flows.config.settings import load
from flows.orchestration.processes import PrefectServer, ProcessError
from flows.orchestration.serving import deployments, serve
from tests.prefect_api import ask

# Prefect's client leaves connections to the garbage collector.
LEFT_OPEN = [f"ignore:{kind}" for kind in ("unclosed:ResourceWarning", ":pytest.PytestUnraisableExceptionWarning")]
# tests/e2e/prefect/test_e2e_up.py is quicker: a server for these tests alone takes longer than they do.
pytestmark = [pytest.mark.anyio, pytest.mark.prefect, pytest.mark.long, *map(pytest.mark.filterwarnings, LEFT_OPEN)]

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
async def served() -> AsyncIterator[None]:
    """Serve during the block, until a signal at its end."""
    ready = asyncio.Event()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    serving = asyncio.create_task(serve(load(), None, lambda *_: ready.set()))
    waiting = asyncio.create_task(ready.wait())
    try:
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                await serving
            yield
            os.kill(os.getpid(), signal.SIGTERM)
            await serving
    finally:
        waiting.cancel()
        serving.cancel()
        for number, handler in handlers.items():
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, handler)


async def test_a_run_that_another_process_may_be_doing_is_left_alone(api: str) -> None:
    nightly = next(each for each in await deployments(load()) if each.name == "nightly")
    path = f"deployments/{await nightly.aapply()}/create_flow_run"
    run = ask(api, path, {"state": {"type": "RUNNING"}})
    async with served():
        assert ask(api, f"flow_runs/{run['id']}", method="GET")["state"]["type"] == "RUNNING"


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ("", "nothing"),
        ("a\n\nb\nc\nd\n", "b / c / d"),
        ("Traceback\nx.RefusedError: no\nx.OtherError: never\n(Background)\nstopped", "x.OtherError: never"),
    ],
)
async def test_the_end_of_the_server_ends_serving_with_the_relevant_lines_of_its_log(
    tmp_path: Path, log: str, shown: str
) -> None:
    path = tmp_path / "server.log"
    path.write_text(log)
    with (
        subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"], start_new_session=True) as process,  # noqa: ASYNC220
        pytest.raises(ProcessError) as raised,
    ):
        await serve(load(), PrefectServer(1, path, process), lambda *_: None)
    assert str(raised.value) == f"Prefect's server ended with code 3. The end of {path}: {shown}"
