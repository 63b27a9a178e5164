"""Prefect servers that run for all tests of a module, or of all modules."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.prefect.up import DUE, NIGHTLY, ZONE, Up
from tests.operator import KEY, PROXIES, ROOT, TIMEOUT, Operator, killed_on_exit, start_sandboxes
from tests.prefect_api import PUBLIC, free_port, prefect_server


@pytest.fixture
def operator(shell: Operator) -> Operator:
    """An operator whose commands are processes: a process reads Prefect's settings once."""
    return shell


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home folder of a Prefect server."""
    return tmp_path_factory.mktemp("prefect") / "home"


@pytest.fixture(scope="module")
def api(home: Path) -> Iterator[str]:
    """The API of a Prefect server that runs for all tests of a module."""
    with prefect_server(home) as api:
        yield api


@pytest.fixture
def python(operator: Operator, api: str) -> Callable[..., str]:
    """Runs Python in the operator's folder, as a user of that server; returns what it wrote."""
    # PWD is the shell's, from which Prefect takes the folder.
    own = {"PREFECT_HOME": str(operator.folder / "prefect"), "PWD": str(operator.folder)}
    operator.env |= {"PREFECT_API_URL": api, "DO_NOT_TRACK": "1", **own}

    def run(*arguments: str) -> str:
        env = {"PYTHONPATH": str(ROOT), "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
        with killed_on_exit(operator.start_python(*arguments, env=env)) as process:
            out, err = process.communicate(timeout=2 * TIMEOUT)
        assert process.returncode == 0, out + err
        return out

    return run


@pytest.fixture
def up(serving: Up) -> Up:
    """`gramhouse up`, as `serving`, started again if an earlier test has ended it."""
    serving.begin()
    return serving


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """`gramhouse up`, for all modules: its server takes 10 s of CPU to start. The UI is configured to be PUBLIC."""
    folder = tmp_path_factory.mktemp("up")
    with start_sandboxes() as begin:
        service = begin(accounts=4, posts=20, seed=11)
        env = {
            **PROXIES,
            "GRAMHOUSE_BASE_URL": service.url,
            "GRAMHOUSE_API_KEY": KEY,
            "GRAMHOUSE_PREFECT_HOME": str(folder / "prefect"),
            "GRAMHOUSE_TIME_ZONE": ZONE.key,
            "GRAMHOUSE_NIGHTLY": NIGHTLY,
            "GRAMHOUSE_DUE": DUE,
            "PREFECT_SERVER_UI_API_URL": f"{PUBLIC}/api",
        }
        made = Up(Operator(folder, env), service, free_port())
        try:
            yield made
        finally:
            made.kill()
