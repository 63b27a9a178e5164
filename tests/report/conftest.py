import fcntl
import os
from pathlib import Path

import pytest

from tests.cli_runner import use_empty_folder
from tests.report.snapshots import three_days


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_empty_folder(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of three days of the sandbox, created once for all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "three-days"
    shared.mkdir(exist_ok=True)
    made = shared / "whole"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            three_days(shared)
            made.touch()
    return shared / "analytics.duckdb"
