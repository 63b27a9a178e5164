"""The warehouse's file: its path, its lock, its tables, and errors in one line."""

import errno
import fcntl
import os
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.storage.connection import flush_log, open_warehouse
from connectors.warehouse.storage.files import database, explain, local
from connectors.warehouse.storage.holder import UNKNOWN, hold, holder, lock_path
from models.files import WarehouseBusy, WarehouseUnusable
from models.mapping import BUILT_IN
from models.views import MEDIA, own_columns
from tests.warehouse.rig import Rig

OURS = f"gramhouse sync (process {os.getpid()}, since 02:00)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "w.duckdb"


def held(path: Path) -> ExitStack:
    lock = ExitStack()
    lock.enter_context(hold(path, "gramhouse sync", since="02:00", pause=lambda _: None))
    return lock


def test_a_second_process_is_told_which_process_holds_the_file(path: Path) -> None:
    with held(path) as first:
        with pytest.raises(WarehouseBusy) as raised:
            held(path)
        fix = "Fix: wait until it has finished, or read the snapshot meanwhile."
        assert (str(raised.value), holder(path)) == (f"{path} is held by {OURS}. {fix}", OURS)
        pauses = []

        def pause(seconds: float) -> None:
            # A process that only looks holds the lock for an instant.
            pauses.append(seconds)
            if len(pauses) == 2:
                first.close()

        with hold(path, "gramhouse publish", since="now", pause=pause):
            assert holder(path) == f"gramhouse publish (process {os.getpid()}, since now)"
        assert len(pauses) == 2
    assert holder(path) is None


def test_a_symbolic_link_is_held_with_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "disk" / "w.duckdb", tmp_path / "link.duckdb"
    link.symlink_to(target)
    for one, other in ((link, target), (target, link)):
        with held(one), open_warehouse(one):
            assert holder(other) == holder(one) == OURS
            with pytest.raises(WarehouseBusy, match="is held by gramhouse sync"):
                held(other)
    assert {path.name for path in tmp_path.iterdir()} == {"disk", "link.duckdb"}


def test_a_lock_is_no_text_and_needs_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock_path(path).write_text("text\n of lines")
    assert holder(path) is None
    with held(path):
        lock_path(path).write_text("")
        with pytest.raises(WarehouseBusy, match=rf"is held by {UNKNOWN}\."):
            held(path)

    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    assert holder(path) is None
    # A command that writes does not go on without the lock.
    with pytest.raises(WarehouseUnusable, match=r"No locks available\. Fix: "):
        held(path)


CONFLICT = 'IO Error: Could not set lock on file "x"'


def test_errors_of_duckdb_and_the_system_are_one_line(path: Path) -> None:
    for output, kind, message in (
        (f"{CONFLICT}: Conflicting lock is held in /duckdb (PID 7)", WarehouseBusy, "(PID 7). Fix: close that program"),
        (f"{CONFLICT}: Resource temporarily unavailable", WarehouseBusy, "Fix: close that program"),
        ("Odd\n[SQL: x]", WarehouseUnusable, "cannot be used: Odd. Fix: check the path"),
        (" \n", WarehouseUnusable, "cannot be used: OSError. Fix: check the path"),
        ("No space left on device", WarehouseUnusable, "No space left on device. Fix: check the path, free space"),
        # No advice to restore a backup, unless the file is damaged.
        ("IO Error: no thread: Resource temporarily unavailable", WarehouseUnusable, "Fix: allow this user more"),
        ("IO Error: no thread: Cannot allocate memory", WarehouseUnusable, "Fix: check the path, free space or memory"),
    ):
        error = explain(path, OSError(output))
        assert (type(error), message in str(error), "\n" in str(error)) == (kind, True, False)


def test_paths_that_duckdb_would_read_otherwise_are_refused() -> None:
    for path in map(Path, ["a b/c.duckdb", "~/w", "a:b", "/x/s3:/y", "ü", "a'b", 'a"b', "a#b", "a%41b", "main"]):
        assert local(path) == database(path) == Path(os.path.expanduser(path))  # noqa: PTH111 - the other rule
    for paths, message in {
        "s3://bucket/x S3://bucket https://h/x file:x :memory:": "not a local path",
        "information_schema PG_CATALOG.x data/Core.duckdb next_snapshot.duckdb": "is reserved",
        "why?/w.duckdb": "question mark",
        "~nobody-of-this-name/w.duckdb": "home directory ~nobody-of-this-name does not exist",
        "\udcff": "codec",
    }.items():
        for path in map(Path, paths.split(" ")):
            with pytest.raises(ValueError, match=message):
                database(path)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ("CREATE SCHEMA core; CREATE TABLE core.media (id INT)", "a gramhouse before 2.0 wrote it. Fix: move it away"),
        ("CREATE TABLE mine (id INT)", "gramhouse did not write it. Fix: move it away"),
        (
            "CREATE SCHEMA core; CREATE TABLE core.warehouse AS SELECT 99 AS schema_number",
            "a newer gramhouse wrote it .*Fix: upgrade gramhouse",
        ),
    ],
)
def test_a_file_of_another_version_or_of_something_else_is_refused(path: Path, statements: str, message: str) -> None:
    with duckdb.connect(str(path)) as db:
        db.execute(statements)
    with pytest.raises(WarehouseUnusable, match=message), open_warehouse(path):
        pass


def test_every_table_and_column_has_a_comment(path: Path) -> None:
    with open_warehouse(path) as db:
        missing = db.execute(
            "SELECT table_name, NULL FROM duckdb_tables() WHERE comment IS NULL"
            " UNION ALL SELECT table_name, column_name FROM duckdb_columns() WHERE comment IS NULL AND NOT internal"
        ).fetchall()
    assert missing == []


def test_columns_of_fields_use_no_name_of_a_declared_column(rig: Rig) -> None:
    tables = "schema_name = 'core' AND table_name IN ('media', 'media_versions')"
    names = {name for (name,) in rig.db.execute(f"SELECT column_name FROM duckdb_columns() WHERE {tables}").fetchall()}
    assert {"caption", "content"} <= names <= own_columns(MEDIA) | {one.column for one in BUILT_IN.columns}


def test_rows_are_combined_only_if_many_were_deleted(rig: Rig) -> None:
    def combines() -> bool:
        flush_log(rig.db)
        [(tasks,)] = rig.db.execute("SELECT current_setting('max_vacuum_tasks')").fetchall()
        return int(tasks) > 0

    rig.full_scan(*({"id": str(number)} for number in range(20)))
    assert not combines()
    rig.db.execute("DELETE FROM core.media WHERE media_id < '15'")
    assert combines()
