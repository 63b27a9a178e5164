"""Publishing: a snapshot replaces the one before, whole or not at all, and no other file."""

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

from connectors.warehouse.publish import publish as publishing
from connectors.warehouse.queries.export import export
from models.feeds import CATALOGUE
from models.views import views
from tests.warehouse.rig import POSTS, Rig, account, ask, at, item, opened, refusal


def names_beside(snapshot: Path) -> list[str]:
    return sorted(entry.name for entry in snapshot.parent.iterdir())


def test_the_snapshot_describes_itself_is_packed_and_read_only(rig: Rig, snapshot: Path) -> None:
    rig.scan(POSTS, 1, [{"id": n, "permalink": f"https://example/{n}"} for n in range(3000)])
    before = os.umask(0o077)
    try:
        for hour in (60, 61):
            rig.publish(snapshot, hour)
            assert stat.S_IMODE(snapshot.stat().st_mode) == 0o444
    finally:
        os.umask(before)
    [own] = rig.values("id", "warehouse")
    assert ask(snapshot, "FROM published") == [(at(61), "1", 129_600.0, own, 604_800.0, None)]
    packed = "SELECT column_name FROM pragma_storage_info('core.media') WHERE compression = 'ZSTD'"
    assert ("permalink",) in ask(snapshot, packed)
    # DuckDB reads it since 1.2.
    assert ask(snapshot, "SELECT tags['storage_version'] FROM duckdb_databases() WHERE NOT internal") == [("v1.2.0+",)]


def test_it_can_be_attached_beside_others_under_another_name(rig: Rig, snapshot: Path) -> None:
    rig.scan(CATALOGUE, 0, [account()])
    rig.scan(POSTS, 1, [{"id": "1"}, {"id": "2"}])
    rig.publish(snapshot)
    with duckdb.connect() as db:
        db.execute(f"ATTACH '{snapshot}' AS theirs (READ_ONLY)")
        db.execute("CREATE SCHEMA core")
        db.execute("CREATE TABLE core.media AS SELECT 1 AS another")
        counted = db.execute("SELECT count(*), count(last_seen_at), count(ig_username) FROM theirs.media").fetchall()
        assert counted == [(2, 2, 2)]
        for name in views():
            db.execute(f"FROM theirs.{name}").fetchall()


LEFT_OVER = {
    **{f".analytics.duckdb.next{suffix}": True for suffix in ("", ".wal")},
    **{f"analytics.duckdb{suffix}": True for suffix in (".wal", ".wal.checkpoint", ".wal.recovery")},
    # To which queries of readers spill.
    "analytics.duckdb.tmp": False,
}


def test_what_others_left_beside_it_is_removed(rig: Rig, snapshot: Path) -> None:
    snapshot.parent.mkdir()
    for name in LEFT_OVER:
        (snapshot.parent / name).write_bytes(b"of a run that was killed, or of nothing we know")
    rig.publish(snapshot)
    assert names_beside(snapshot) == ["analytics.duckdb", *(name for name, is_gone in LEFT_OVER.items() if not is_gone)]


def refuse(*_: int) -> int:
    raise OSError(errno.EOPNOTSUPP, "not supported")


def refuse_the_rest(source: int, target: int, count: int) -> int:
    return refuse() if os.lseek(source, 0, os.SEEK_CUR) else os.write(target, os.read(source, min(count, 1000)))


@pytest.mark.parametrize("call", [refuse, refuse_the_rest])
def test_a_copy_has_all_bytes_whichever_call_makes_it(
    rig: Rig, snapshot: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[..., int]
) -> None:
    monkeypatch.setattr(os, "copy_file_range", call, raising=False)
    rig.publish(snapshot)
    assert snapshot.read_bytes() == (rig.folder / "warehouse.duckdb").read_bytes()


def test_a_full_disk_leaves_the_old_snapshot(rig: Rig, snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.publish(snapshot)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(publishing, "copy_file", Mock(side_effect=full))
    message = refusal(lambda: rig.publish(snapshot, 501))
    assert message.startswith(f"cannot publish {snapshot}: No space left on device. Fix: free space")
    assert names_beside(snapshot) == ["analytics.duckdb"]
    assert ask(snapshot, "SELECT snapshot_at FROM published") == [(at(500),)]


def another_snapshot(path: Path) -> None:
    path.parent.joinpath("other").mkdir()
    with opened(path.parent / "other") as rig:
        rig.db.execute("UPDATE core.warehouse SET id = 'another'")
        rig.publish(path)


def opened_for_writing(path: Path) -> object:
    shutil.copy(path.with_name("own.duckdb"), path)
    path.chmod(0o644)
    return duckdb.connect(path)


NO_FILE = "is not a DuckDB file that can be read"
# What is at the path, and why it is kept.
OTHER_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda path: path.write_text("[mapping]\nmedia_id = ['/id']\n"), NO_FILE),
    "pipe": (os.mkfifo, NO_FILE),
    "link to nothing": (lambda path: path.symlink_to("nowhere"), NO_FILE),
    "link to a snapshot": (lambda path: path.symlink_to(path.with_name("own.duckdb")), NO_FILE),
    "other database": (lambda path: duckdb.connect(path).close(), "cannot be read as a snapshot"),
    "other snapshot": (another_snapshot, "is the snapshot of another warehouse"),
    "open for writing": (opened_for_writing, "cannot be read"),
}


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_any_other_file_at_its_path_is_kept(rig: Rig, snapshot: Path, kind: str) -> None:
    write, why = OTHER_FILES[kind]
    rig.publish(snapshot.with_name("own.duckdb"))
    held = write(snapshot)
    before = snapshot.lstat().st_ino, snapshot.read_bytes() if snapshot.is_file() else None
    message = refusal(lambda: rig.publish(snapshot))
    assert message.startswith(f"{snapshot} {why}")
    assert " not replaced. Fix: " in message
    assert (snapshot.lstat().st_ino, snapshot.read_bytes() if snapshot.is_file() else None) == before
    assert not snapshot.with_name(".analytics.duckdb.next").exists()
    del held


def test_what_was_hidden_is_not_shown_in_silence(rig: Rig, snapshot: Path) -> None:
    rig.publish(snapshot, hide=["caption"])
    message = refusal(lambda: rig.publish(snapshot))
    assert "hides caption, and the next snapshot would show it" in message
    assert "--show-hidden" in message
    assert "hides caption" in refusal(lambda: rig.publish(snapshot, hide=["caption:hash"], salt="s"))
    assert ask(snapshot, "SELECT hidden FROM published") == [("caption",)]
    rig.publish(snapshot, may_show=True)
    assert ask(snapshot, "SELECT hidden FROM published") == [(None,)]


def test_files_are_durable_before_they_are_renamed_and_their_folder_after_that(
    rig: Rig, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = list[tuple[str, int]]()
    fsync, renaming = os.fsync, {name: getattr(Path, name) for name in ("rename", "replace")}

    def note_sync(descriptor: int) -> None:
        done.append(("sync", os.fstat(descriptor).st_ino))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note_sync)
    for name, rename in renaming.items():

        def note_rename(path: Path, to: Path, rename: Callable[[Path, Path], Path] = rename) -> Path:
            done.append(("rename", path.stat().st_ino))
            return rename(path, to)

        monkeypatch.setattr(Path, name, note_rename)
    rig.full_scan(item("1"))
    exported = snapshot.parent / "export"
    export(rig.publish(snapshot), exported)
    [part] = (rig.folder / "raw").iterdir()
    for file in (part, snapshot, exported / "media.parquet"):
        wanted = {file.stat().st_ino: "file", file.parent.stat().st_ino: "folder"}
        steps = [(what, wanted[number]) for what, number in done if number in wanted]
        begin = steps.index(("rename", "file"))
        assert ("sync", "file") in steps[:begin], file
        assert ("sync", "folder") in steps[begin:], file
