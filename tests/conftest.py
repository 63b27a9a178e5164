"""What holds for every test."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from flows.orchestration.processes import free_port, prefect

# A busy machine is no failure: tests that look for hangs set a deadline of their own.
settings.register_profile("gramhouse", deadline=None)
settings.load_profile("gramhouse")

_MEMORY = Path("/dev/shm")
_ENOUGH_BYTES = 1 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary folders in memory where there is room: on a disk tests wait for its fsync a fifth of their time."""
    if config.getoption("basetemp") is None and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


# Files of more than half a minute, the longest first: a worker that began one of them last would end alone.
LONGEST = (
    "test_e2e_up",
    "test_e2e_sync",
    "test_e2e_kills",
    "test_flows_json",
    "test_e2e_prefect",
    "test_fuzz_payloads",
    "test_security_e2e_canary",
    "test_e2e_faults",
    "test_e2e_accounts",
    "test_flows_scanning",
    "test_e2e_pools",
    "test_flows_clock",
    "test_flows_status",
    "test_e2e_told",
)
_RANKS = {stem: rank for rank, stem in enumerate(LONGEST)}


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores: tests of real processes wait half of their time."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the longest files where workers share them; the order is otherwise that of the names."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _RANKS.get(item.path.stem, len(_RANKS)))


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
            with prefect(made, free_port()) as server:
                server.wait()
            (made / "server.log").unlink()
            made.rename(home)
    return home
