"""Prefect servers that run for all tests of a module, or of all modules."""

from collections.abc import Iterator

import pytest

from tests.e2e.prefect.up import DUE, NIGHTLY, ZONE, Up
from tests.operator import KEY, PROXIES, Operator, start_sandboxes
from tests.prefect_api import PUBLIC, free_port


@pytest.fixture
def up(serving: Up) -> Up:
    """`gramhouse up`, as `serving`, started again if an earlier test has ended it."""
    serving.begin_again()
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
