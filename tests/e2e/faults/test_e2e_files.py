"""Problems with files: each is reported in one clear line, and landed pages are kept."""

import os
import shlex
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


@pytest.mark.parametrize("cut", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_damaged_part_is_named_and_not_read(operator: Operator, service: Api, *, cut: bool) -> None:
    operator.sync()
    (part,) = operator.folder.glob("raw/*/*.parquet")
    whole = part.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    part.write_bytes(whole[:100] if cut else damaged)
    before = operator.ask("SELECT * FROM media ORDER BY ALL")
    export = f"export --raw {operator.folder / 'out'}"
    for command in ("rebuild", export, 'query "SELECT sum(length(payload)) FROM raw_media"'):
        message = operator.run(*shlex.split(command), code=1).stderr
        # What DuckDB reads itself, it does not always name: the doctor does.
        named = str(part) in message and "Fix: restore the file" in message
        assert named or "`gramhouse doctor`" in message, message
    assert str(part) in operator.run("doctor", "--json", code=1).stdout
    assert operator.ask("SELECT * FROM media ORDER BY ALL") == before
    assert not (operator.folder / "out").exists()
    part.write_bytes(whole)
    operator.run(*shlex.split(export))
    operator.run("rebuild")
    assert_matches_api(operator.ask, service)


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
    assert "free space on the disk and retry; landed pages are kept." in _refused(operator)
    subprocess.run(["mount", "-o", "remount,size=200m", str(small)], check=True)
    assert operator.sync()["resumed_runs"]
    assert_matches_api(operator.ask, service)
