"""Serving the deployments: the state on the Prefect server meanwhile and after a signal."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.config.errors import ProcessError, TrackerUnreachable
from flows.config.settings import load
from flows.orchestration.processes import PrefectServer
from flows.orchestration.serving import deployments, serve
from tests.prefect_api import ask

# Prefect's client leaves connections to the garbage collector.
LEFT_OPEN = [f"ignore:{kind}" for kind in ("unclosed:ResourceWarning", ":pytest.PytestUnraisableExceptionWarning")]
# tests/e2e/prefect/test_e2e_up.py is quicker: a server for these tests alone takes longer than they do.
pytestmark = [pytest.mark.anyio, pytest.mark.prefect, pytest.mark.long, *map(pytest.mark.filterwarnings, LEFT_OPEN)]


@pytest.fixture
def api(tracker: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The API of the session's server. Deployments are deleted at the end: the server would schedule their runs."""
    monkeypatch.setenv("GRAMHOUSE_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("GRAMHOUSE_API_KEY", "a-key")
    # No runs are due soon.
    monkeypatch.setenv("GRAMHOUSE_NIGHTLY", "0 0 29 2 *")
    monkeypatch.setenv("GRAMHOUSE_STORIES", "0 12 29 2 *")
    yield tracker
    for each in ask(tracker, "deployments/filter"):
        ask(tracker, f"deployments/{each['id']}", method="DELETE")


async def test_a_run_that_another_process_may_be_doing_is_left_alone(api: str) -> None:
    class Ready(Exception):  # noqa: N818
        """The deployments are served."""

    def ready(*_: object) -> None:
        raise Ready

    nightly = next(each for each in await deployments(load()) if each.name == "nightly")
    path = f"deployments/{await nightly.aapply()}/create_flow_run"
    run = ask(api, path, {"state": {"type": "RUNNING"}})
    with pytest.raises(Ready):
        await serve(load(), None, ready)
    assert ask(api, f"flow_runs/{run['id']}", method="GET")["state"]["type"] == "RUNNING"


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("own", [True, False])
async def test_a_server_that_no_longer_answers_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, own: bool
) -> None:
    async def give_up(_: object) -> None:
        raise ExceptionGroup("unhandled errors", [RuntimeError("Service exceeded error threshold.")])

    monkeypatch.setattr("prefect.runner.Runner.start", give_up)
    path = tmp_path / "server.log"
    path.write_text("busy")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True) as process:  # noqa: ASYNC220
        with pytest.raises((ProcessError, TrackerUnreachable)) as raised:
            await serve(load(), PrefectServer(1, path, process) if own else None, lambda *_: None)
        process.kill()
    assert type(raised.value) is (ProcessError if own else TrackerUnreachable)
    assert "no longer answers" in str(raised.value)


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
