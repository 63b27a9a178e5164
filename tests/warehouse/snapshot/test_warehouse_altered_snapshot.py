"""A snapshot that another program has written to: its changes do not get into the next one."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.snapshot import publish as publishing
from connectors.warehouse.storage.connection import connect
from tests.warehouse.rig import POSTS, Rig, refusal

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
def rig(path: Path) -> Iterator[Rig]:
    with connect(path) as connection:
        rig = Rig(connection)
        rig.scan(POSTS, "p", 0, [{"id": str(number), "caption": "theirs"} for number in range(3)])
        yield rig


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


def test_the_log_of_a_killed_analyst_is_not_replayed(rig: Rig, snapshot: Path) -> None:
    rig.publish(snapshot)
    with analyst(snapshot):
        pass
    assert names(snapshot) == ["analytics.duckdb", "analytics.duckdb.wal"]
    assert captions(snapshot) == "[('mine',)]"
    for hour in (61, 62):
        rig.publish(snapshot, hour)
        assert captions(snapshot) == "[('theirs',)]"
        assert names(snapshot) == ["analytics.duckdb"]


def test_a_connection_left_open_changes_only_the_old_file(rig: Rig, snapshot: Path) -> None:
    rig.publish(snapshot)
    with analyst(snapshot) as process:
        rig.publish(snapshot, 61)
        assert captions(snapshot) == "[('theirs',)]"
        assert names(snapshot) == ["analytics.duckdb"]
        process.communicate(timeout=30)
    assert captions(snapshot) == "[('theirs',)]"
    rig.publish(snapshot, 62)
    assert captions(snapshot) == "[('theirs',)]"


@pytest.mark.parametrize("suffix", [".wal", ".wal.checkpoint", ".wal.recovery"])
def test_logs_are_removed_and_spill_folders_of_readers_are_kept(rig: Rig, snapshot: Path, suffix: str) -> None:
    snapshot.parent.mkdir()
    snapshot.with_name(snapshot.name + suffix).write_bytes(b"of nothing we know")
    snapshot.with_name(snapshot.name + ".tmp").mkdir()
    rig.publish(snapshot)
    assert names(snapshot) == ["analytics.duckdb", "analytics.duckdb.tmp"]


@pytest.mark.parametrize(("umask", "mode"), [(0o027, 0o440), (0o002, 0o444)])
def test_it_is_published_without_write_permission_and_replaced_nevertheless(
    rig: Rig, snapshot: Path, umask: int, mode: int
) -> None:
    before = os.umask(umask)
    try:
        for hour in (60, 61):
            rig.publish(snapshot, hour)
            assert stat.S_IMODE(snapshot.stat().st_mode) == mode
    finally:
        os.umask(before)


def test_publishing_fails_if_a_log_appears_again(rig: Rig, snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.publish(snapshot)
    with analyst(snapshot):
        pass
    monkeypatch.setattr(publishing, "_remove_logs", lambda _: None)
    message = refusal(lambda: rig.publish(snapshot))
    assert "another program writes to analytics.duckdb.wal" in message
    assert "Fix: close the program that has analytics.duckdb open for writing" in message


def test_publishing_fails_if_the_snapshot_cannot_be_opened(
    rig: Rig, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.publish(snapshot)
    check = publishing._check  # noqa: SLF001 - the moment after the rename

    def at_that_moment(db: duckdb.DuckDBPyConnection, path: Path) -> None:
        with analyst(path, "SELECT 1"):
            check(db, path)

    monkeypatch.setattr(publishing, "_check", at_that_moment)
    message = refusal(lambda: rig.publish(snapshot))
    assert "was published but cannot be read" in message
    assert "Fix: close the program that has analytics.duckdb open for writing" in message
    monkeypatch.undo()
    rig.publish(snapshot, 62)
    assert captions(snapshot) == "[('theirs',)]"
