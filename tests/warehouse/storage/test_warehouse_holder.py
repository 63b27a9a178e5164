import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from connectors.warehouse.storage.connection import open_warehouse
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseUnusable, explain
from connectors.warehouse.storage.holder import Holder, hold, holder, lock_path, look

ROOT = Path(__file__).parents[3]
SINCE = "2026-03-01T02:00:00+00:00"

HOLDS = """
import sys
from pathlib import Path
from connectors.warehouse.storage.connection import open_warehouse
from connectors.warehouse.storage.holder import hold
since = "2026-03-01T02:00:00+00:00"
with hold(Path(sys.argv[1]), "gramhouse sync", since=since, pause=lambda _: None), open_warehouse(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def process(code: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the file until the block ends."""
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "held\n"
            yield child
        finally:
            child.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "w.duckdb"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    with hold(path, "gramhouse sync", since=SINCE, pause=lambda _: None), open_warehouse(path):
        yield


def refused(path: Path, kind: type[Exception]) -> str:
    with pytest.raises(kind) as raised:
        writing(path).__enter__()
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_a_second_process_is_told_which_process_holds_the_file(path: Path) -> None:
    with process(HOLDS, path) as child:
        who = Holder(child.pid, "gramhouse sync", "2026-03-01T02:00:00+00:00")
        assert holder(path) == who
        assert refused(path, WarehouseBusy) == (
            f"{path} is held by gramhouse sync (process {child.pid}, since 2026-03-01T02:00:00+00:00)."
            " Fix: wait until it has finished, or read the snapshot meanwhile."
        )
        assert holder(path) == who
        child.kill()
        child.wait()
        assert holder(path) is None
        with writing(path):
            pass


def test_a_symbolic_link_is_held_with_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "disk" / "w.duckdb", tmp_path / "link.duckdb"
    link.symlink_to(target)
    for one, other in ((link, target), (target, link)):
        with writing(one):
            assert holder(other) == holder(one) == Holder(os.getpid(), "gramhouse sync", SINCE)
            assert "is held by gramhouse sync" in refused(other, WarehouseBusy)
    assert {path.name for path in tmp_path.iterdir()} == {"disk", "link.duckdb"}


def test_a_link_to_itself_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "w.duckdb").symlink_to("w.duckdb")
    assert "cannot be used" in refused(tmp_path / "w.duckdb", WarehouseUnusable)


def test_the_lock_is_tried_again_after_a_refusal(path: Path) -> None:
    """A process that only checks holds the lock for an instant: it is tried again after a pause."""
    with process(HOLDS, path) as child:
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                child.kill()
                child.wait()

        with hold(path, "gramhouse sync", since="now", pause=pause):
            assert holder(path) == Holder(os.getpid(), "gramhouse sync", "now")
        assert len(pauses) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_a_lock_whose_holder_cannot_be_read_is_still_a_lock(path: Path, text: str) -> None:
    with writing(path):
        lock_path(path).write_text(text)
        assert "is held by another gramhouse." in refused(path, WarehouseBusy)


@pytest.mark.parametrize("left", ["garbage", '{"pid": 1, "activity": "x", "since": "y"}'])
def test_the_status_of_a_dead_process_is_ignored(path: Path, left: str) -> None:
    lock_path(path).write_text(left)
    assert holder(path) is None
    with writing(path):
        assert holder(path) == Holder(os.getpid(), "gramhouse sync", SINCE)
    assert (holder(path), lock_path(path).read_text()) == (None, "")


def test_a_file_system_without_locks_has_no_state_of_the_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    lock_path(path).touch()
    monkeypatch.setattr(fcntl, "flock", unsupported)
    assert (look(path), holder(path)) == (None, None)
    # A command that writes does not go on without the lock.
    assert "No locks available. Fix: " in refused(path, WarehouseUnusable)


def test_a_file_that_is_not_a_database_is_reported_and_not_changed(path: Path) -> None:
    path.write_text("no database\n" * 1000)
    message = refused(path, WarehouseUnusable)
    assert message.startswith(f"{path} cannot be used: ")
    assert message.endswith("Fix: set the path to another file, or restore a backup.")
    assert path.read_text() == "no database\n" * 1000
    assert holder(path) is None


def test_a_folder_that_cannot_be_created_is_reported_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = refused(tmp_path / "file" / "w.duckdb", WarehouseUnusable)
    assert message.startswith(f"cannot write in {tmp_path / 'file'}: ")
    assert "GRAMHOUSE_WAREHOUSE" in message


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "Fix: free space on the disk and retry; landed pages are kept."),
        (errno.EDQUOT, "Fix: free space in the quota and retry; landed pages are kept."),
        (errno.EACCES, "Fix: "),
    ],
)
def test_a_lock_that_cannot_be_written_is_reported_with_the_fix(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("connectors.warehouse.storage.holder.open_without_symlinks", full)
    message = refused(path, WarehouseUnusable)
    assert message.startswith(f"cannot write in {path.parent}: {os.strerror(number)}. {hint}")


@pytest.mark.parametrize(
    ("output", "result"),
    [
        (
            'IO Error: Could not set lock on file "x": Conflicting lock is held in /usr/bin/duckdb (PID 7). See',
            "duckdb",
        ),
        ("IO Error: Could not set lock on file: Resource temporarily unavailable", "another process"),
    ],
)
def test_lock_messages_of_duckdb_are_recognized(path: Path, output: str, result: str) -> None:
    error = explain(path, OSError(output))
    assert isinstance(error, WarehouseBusy)
    assert result in str(error)


HINT = "Fix: check the path and the disk, then retry; landed pages are kept."


@pytest.mark.parametrize(
    ("output", "result"),
    [
        ("Odd\n[SQL: x]", f"Odd. {HINT}"),
        (" \n", f"OSError. {HINT}"),
        (
            "No space left on device",
            "No space left on device. Fix: free space on the disk and retry; landed pages are kept.",
        ),
    ],
)
def test_other_messages_of_duckdb_are_one_line(path: Path, output: str, result: str) -> None:
    assert str(explain(path, OSError(output))) == f"{path} cannot be used: {result}"
