"""Problems with files: each is reported in one clear line, and landed pages are kept."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import Operator

pytestmark = pytest.mark.e2e


def _refused(operator: Operator) -> str:
    message = operator.run("sync", code=1).stderr
    [line] = [line for line in message.splitlines() if " gramhouse sync of " not in line]
    return line


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_reported_in_one_line_and_landed_pages_are_kept(
    operator: Operator, service: Api, small: Path
) -> None:
    operator.env |= {"GRAMHOUSE_WAREHOUSE": str(small / "warehouse.duckdb")}
    assert (
        "No space left on device. Fix: check the path, free space or memory, then retry; landed pages are kept."
        in _refused(operator)
    )
    subprocess.run(["mount", "-o", "remount,size=200m", str(small)], check=True)
    assert operator.sync()["resumed_runs"]
    assert_matches_api(operator.ask, service)
