"""A snapshot that another program has written to: its changes do not get into the next one."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.warehouse.days import POSTS, Days, refusal

# Writes, reports it, and waits; when it is killed, its log remains.
ANALYST = """
import duckdb, sys
db = duckdb.connect(sys.argv[1])
db.execute(sys.argv[2])
print("written", flush=True)
sys.stdin.read()
"""
READER = "import duckdb, sys; print(duckdb.connect(sys.argv[1], read_only=True).execute(sys.argv[2]).fetchall())"
WRITE = "UPDATE core.media SET caption = 'mine'"


@pytest.fixture
def filled(days: Days) -> Days:
    days.scan(POSTS, 0, [{"id": str(number), "caption": "theirs"} for number in range(3)])
    return days


@contextmanager
def analyst(snapshot: Path, query: str = WRITE) -> Iterator["subprocess.Popen[str]"]:
    """Open the snapshot for writing, which root or older versions of gramhouse can do."""
    snapshot.chmod(0o644)
    command = [sys.executable, "-c", ANALYST, str(snapshot), query]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        try:
            yield process
        finally:
            process.kill()


def captions(snapshot: Path) -> str:
    query = "SELECT DISTINCT caption FROM media"
    command = [sys.executable, "-c", READER, str(snapshot), query]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def names(snapshot: Path) -> list[str]:
    return sorted(entry.name for entry in snapshot.parent.iterdir())


def test_the_log_of_a_killed_analyst_is_not_replayed(filled: Days, snapshot: Path) -> None:
    filled.publish(snapshot)
    with analyst(snapshot):
        pass
    assert names(snapshot) == ["analytics.duckdb", "analytics.duckdb.wal"]
    assert captions(snapshot) == "[('mine',)]"
    for hour in (61, 62):
        filled.publish(snapshot, hour)
        assert captions(snapshot) == "[('theirs',)]"
        assert names(snapshot) == ["analytics.duckdb"]


def test_a_snapshot_that_is_open_for_writing_is_not_replaced(filled: Days, snapshot: Path) -> None:
    filled.publish(snapshot)
    with analyst(snapshot):
        assert "Fix: close the program that has it open for writing" in refusal(lambda: filled.publish(snapshot, 61))
    filled.publish(snapshot, 62)
    assert captions(snapshot) == "[('theirs',)]"


@pytest.mark.parametrize("suffix", [".wal", ".wal.checkpoint", ".wal.recovery"])
def test_logs_are_removed_and_spill_folders_of_readers_are_kept(filled: Days, snapshot: Path, suffix: str) -> None:
    snapshot.parent.mkdir()
    snapshot.with_name(snapshot.name + suffix).write_bytes(b"of nothing we know")
    snapshot.with_name(snapshot.name + ".tmp").mkdir()
    filled.publish(snapshot)
    assert names(snapshot) == ["analytics.duckdb", "analytics.duckdb.tmp"]


def test_it_is_published_without_write_permission_and_replaced_nevertheless(filled: Days, snapshot: Path) -> None:
    before = os.umask(0o077)
    try:
        for hour in (60, 61):
            filled.publish(snapshot, hour)
            assert stat.S_IMODE(snapshot.stat().st_mode) == 0o444
    finally:
        os.umask(before)
