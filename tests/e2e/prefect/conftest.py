"""A Prefect server that runs for all tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import Operator
from tests.prefect_api import prefect_server


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
