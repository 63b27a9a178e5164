"""The lock on the warehouse: one process writes, and everybody is told which."""

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
from connectors.warehouse.storage.holder import UNKNOWN, hold, holder, lock_path

ROOT = Path(__file__).parents[3]
SINCE = "2026-03-01T02:00:00+00:00"

OURS = f"gramhouse sync (process {os.getpid()}, since {SINCE})"

HOLDS = f"""
import sys
from pathlib import Path
from connectors.warehouse.storage.holder import hold
with hold(Path(sys.argv[1]), "gramhouse sync", since="{SINCE}", pause=lambda _: None):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the file until the block ends."""
    command = [sys.executable, "-c", HOLDS, str(path)]
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
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_second_process_is_told_which_process_holds_the_file(path: Path) -> None:
    with process(path) as child:
        assert refused(path, WarehouseBusy) == (
            f"{path} is held by gramhouse sync (process {child.pid}, since {SINCE})."
            " Fix: wait until it has finished, or read the snapshot meanwhile."
        )
        assert holder(path) == f"gramhouse sync (process {child.pid}, since {SINCE})"
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                child.kill()
                child.wait()

        # A process that only looks holds the lock for an instant.
        with hold(path, "gramhouse publish", since="now", pause=pause):
            assert holder(path) == f"gramhouse publish (process {os.getpid()}, since now)"
        assert len(pauses) == 2
    assert holder(path) is None


def test_a_symbolic_link_is_held_with_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "disk" / "w.duckdb", tmp_path / "link.duckdb"
    link.symlink_to(target)
    for one, other in ((link, target), (target, link)):
        with writing(one):
            assert holder(other) == holder(one) == OURS
            assert "is held by gramhouse sync" in refused(other, WarehouseBusy)
    assert {path.name for path in tmp_path.iterdir()} == {"disk", "link.duckdb"}


def test_a_lock_is_no_text_and_needs_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock_path(path).write_text("text\n of lines")
    assert holder(path) is None
    with writing(path):
        lock_path(path).write_text("")
        assert f"is held by {UNKNOWN}." in refused(path, WarehouseBusy)

    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    assert holder(path) is None
    # A command that writes does not go on without the lock.
    assert "No locks available. Fix: " in refused(path, WarehouseUnusable)


CONFLICT = 'IO Error: Could not set lock on file "x"'


@pytest.mark.parametrize(
    ("output", "kind", "message"),
    [
        (f"{CONFLICT}: Conflicting lock is held in /duckdb (PID 7)", WarehouseBusy, "/duckdb (PID 7). Fix: close that"),
        (f"{CONFLICT}: Resource temporarily unavailable", WarehouseBusy, "Fix: close that program"),
        ("Odd\n[SQL: x]", WarehouseUnusable, "cannot be used: Odd. Fix: check the path"),
        (" \n", WarehouseUnusable, "cannot be used: OSError. Fix: check the path"),
        ("No space left on device", WarehouseUnusable, "No space left on device. Fix: check the path, free space"),
    ],
)
def test_errors_of_duckdb_and_the_system_are_one_line(
    path: Path, output: str, kind: type[Exception], message: str
) -> None:
    error = explain(path, OSError(output))
    assert isinstance(error, kind)
    assert message in str(error)
    assert "\n" not in str(error)
