"""The status file: complete or absent, and ignored if its process is gone."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from connectors.warehouse.runs.status_file import Status, read_status, settled, status_path, write_status
from connectors.warehouse.storage.errors import StatusUnreadable
from connectors.warehouse.storage.holder import hold
from models.runs import RunState
from tests.warehouse.rig import refusal

AT = datetime(2026, 3, 1, 2, 15, tzinfo=UTC)
RUNNING = Status("sync", RunState.RUNNING, os.getpid(), AT, run_id="r1", selection="stories")


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return tmp_path / "analytics.duckdb"


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse.duckdb"


def test_a_written_status_is_read_back_and_no_other_file_is_left(snapshot: Path) -> None:
    assert read_status(snapshot) is None
    write_status(snapshot, RUNNING)
    ended = Status("sync", RunState.FAILED, 1, AT, "r2", None, AT, 3, 2, 1, "api_unauthorized", "No.")
    for status in (RUNNING, ended):
        write_status(snapshot, status)
        assert read_status(snapshot) == status
    assert [path.name for path in snapshot.parent.iterdir()] == ["analytics.duckdb.status.json"]


def test_an_interrupted_write_keeps_the_previous_status(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_status(snapshot, RUNNING)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_status(snapshot, Status("sync", RunState.COMPLETE, 1, AT))
    assert read_status(snapshot) == RUNNING
    monkeypatch.undo()
    write_status(snapshot, Status("sync", RunState.COMPLETE, 1, AT))


def test_a_link_in_its_place_is_replaced_and_not_written_through(snapshot: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("kept")
    for name in (status_path(snapshot).name, f".{status_path(snapshot).name}.next"):
        snapshot.with_name(name).symlink_to(other)
    write_status(snapshot, RUNNING)
    assert (read_status(snapshot), other.read_text()) == (RUNNING, "kept")


GOOD = {"kind": "sync", "state": "running", "pid": 1, "started_at": AT.isoformat()}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[" * 60_000,
        "\x00",
        json.dumps(GOOD | {"state": "happy"}),
        json.dumps(GOOD | {"started_at": "2026-03-01T02:15:00"}),
        json.dumps(GOOD | {"detail": ["x"]}),
        json.dumps(GOOD | {"detail": "x" * 70_000}),
    ],
)
def test_a_damaged_file_is_reported_in_one_line(snapshot: Path, text: str) -> None:
    status_path(snapshot).write_text(text)
    assert "Fix:" in refusal(lambda: read_status(snapshot), StatusUnreadable)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_a_path_that_is_not_a_file_is_reported_in_one_line(snapshot: Path, make: object) -> None:
    assert callable(make)
    make(status_path(snapshot))
    with pytest.raises(StatusUnreadable):
        read_status(snapshot)


def test_a_run_is_running_only_while_its_process_holds_the_lock(warehouse: Path) -> None:
    with hold(warehouse, "gramhouse sync", since="now", pause=lambda _: None):
        assert settled(RUNNING, warehouse) == RUNNING
        # Another process has the lock, so the process of the status is gone.
        other = Status("sync", RunState.RUNNING, os.getpid() + 1, AT)
        assert settled(other, warehouse).state is RunState.INTERRUPTED
    found = settled(RUNNING, warehouse)
    assert (found.state, found.run_id) == (RunState.INTERRUPTED, "r1")
    assert f"Process {os.getpid()} ended" in str(found.detail)


def test_without_a_lock_file_the_status_is_not_changed(warehouse: Path) -> None:
    assert settled(RUNNING, warehouse) == RUNNING


def test_the_status_of_an_ended_run_is_not_changed(warehouse: Path) -> None:
    ended = Status("sync", RunState.PARTIAL, 1, AT)
    with hold(warehouse, "gramhouse sync", since="now", pause=lambda _: None):
        assert settled(ended, warehouse) == ended
