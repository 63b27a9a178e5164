"""What holds for every test."""

import fcntl
import gc
import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.prefect_api import prefect_server

# A busy machine is no failure: tests that look for hangs set a deadline of their own.
settings.register_profile("gramhouse", deadline=None)
settings.load_profile("gramhouse")

_MEMORY = Path("/dev/shm")
_ENOUGH_BYTES = 1 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary folders in memory where there is room: on a disk tests wait for its fsync a fifth of their time."""
    if config.getoption("basetemp") is None and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


# Files of more than a quarter of a minute, the longest first: a worker that began one of them last would end alone.
# Those that wait for processes take turns with those that compute.
LONGEST = (
    "test_e2e_up",
    "test_faults_matrix",
    "test_e2e_cluster",
    "test_simulation",
    "test_security_e2e_canary",
    "test_flows_incremental",
    "test_e2e_kills",
    "test_warehouse_schema_inference",
    "test_warehouse_migrations",
    "test_e2e_sync",
    "test_flows_cluster_modes",
    "test_e2e_prefect",
    "test_warehouse_publish",
    "test_e2e_messages",
    "test_flows_cluster_faults",
    "test_warehouse_history",
    "test_flows_cluster",
    "test_flows_json",
    "test_warehouse_batches",
    "test_e2e_faults",
)
_RANKS = {stem: rank for rank, stem in enumerate(LONGEST)}


def pytest_xdist_auto_num_workers() -> int:
    """Return two workers more than there are cores: tests of real processes wait half of their time."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage among thousands of tests while they are made, or later: it took a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the longest files where workers share them; the order is otherwise that of the names."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _RANKS.get(item.path.stem, len(_RANKS)))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def prefect_template(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder as a Prefect server makes it, once for all workers.

    The migrations of its database take longer than many a test.
    """
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if hasattr(request.config, "workerinput") else own
    home = folder / "prefect-template"
    with (folder / "prefect-template.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            made = tmp_path_factory.mktemp("template") / "prefect"
            with prefect_server(made):
                pass
            (made / "server.log").unlink()
            made.rename(home)
    return home
