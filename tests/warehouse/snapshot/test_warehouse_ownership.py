"""Only a snapshot of this warehouse is replaced; any other file at its path is kept, and named in one line."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.snapshot.ownership import refusal as refusal_of
from connectors.warehouse.snapshot.publish import draft_of
from connectors.warehouse.storage.connection import connect
from tests.warehouse.rig import POSTS, Rig, account, ask, refusal


@contextmanager
def opened(folder: Path, name: str) -> Iterator[Rig]:
    """A warehouse with this name and id."""
    with connect(folder / f"{name}.duckdb", new_id=lambda: name) as connection:
        yield Rig(connection)


OWNER = "SELECT p.warehouse_id, (SELECT count(*) FROM media) FROM published AS p"


@pytest.fixture
def first(tmp_path: Path, snapshot: Path) -> None:
    with opened(tmp_path, "first") as rig:
        rig.catalogue("c", 0, [account()])
        rig.scan(POSTS, "p", 1, [{"id": "1"}, {"id": "2"}])
        rig.publish(snapshot)
    assert ask(snapshot, OWNER) == [("first", 2)]


def refused(rig: Rig, snapshot: Path) -> str:
    """Return the error message; assert that the run would be warned, and that nothing was changed."""
    before = snapshot.read_bytes() if snapshot.is_file() else None
    names = sorted(path.name for path in snapshot.parent.iterdir())
    message = refusal(lambda: rig.publish(snapshot))
    assert f"{snapshot} " in message
    assert " and is not replaced. Fix: " in message
    assert str(refusal_of(rig.connection, snapshot, draft_of(snapshot))) == message
    assert (snapshot.read_bytes() if snapshot.is_file() else None) == before
    assert sorted(path.name for path in snapshot.parent.iterdir()) == names
    return message


def database(path: Path, *statements: str) -> None:
    with duckdb.connect(path) as db:
        for statement in statements:
            db.execute(statement)


OTHER_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "is an empty file"),
    "text": (lambda path: path.write_text("[mapping]\nmedia_id = ['/id']\n"), "is not a DuckDB file"),
    "folder": (lambda path: path.mkdir(), "is a folder"),
    "pipe": (os.mkfifo, "is not a regular file"),
    "dangling link": (lambda path: path.symlink_to("nowhere"), "is a symbolic link"),
    "sales": (lambda path: database(path, "CREATE TABLE sales AS SELECT 1"), "not a gramhouse snapshot"),
    "published": (lambda path: database(path, "CREATE TABLE published AS SELECT 1 AS day"), "not a gramhouse snapshot"),
    "no id": (
        lambda path: database(path, "CREATE TABLE published AS SELECT NULL::VARCHAR AS warehouse_id"),
        "not a gramhouse snapshot",
    ),
}


@pytest.mark.parametrize("kind", OTHER_FILES)
def test_a_file_that_is_not_a_snapshot_is_kept(tmp_path: Path, snapshot: Path, kind: str) -> None:
    write, why = OTHER_FILES[kind]
    snapshot.parent.mkdir()
    write(snapshot)
    with opened(tmp_path, "first") as rig:
        rig.catalogue("c", 0, [account()])
        assert why in refused(rig, snapshot)


def test_the_warehouse_is_not_a_snapshot(tmp_path: Path) -> None:
    with opened(tmp_path, "first") as rig, opened(tmp_path, "second") as other:
        other.catalogue("c", 0, [account()])
        # The file of an open warehouse cannot be attached; its copy has no table `published`.
        assert "but not a gramhouse snapshot" in refused(rig, tmp_path / "second.duckdb")


@pytest.mark.usefixtures("first")
def test_the_snapshot_of_another_warehouse_is_kept(tmp_path: Path, snapshot: Path) -> None:
    snapshot.with_name(snapshot.name + ".wal").write_bytes(b"of nothing we know")
    with opened(tmp_path, "second") as rig:
        rig.catalogue("c", 0, [account()])
        message = refused(rig, snapshot)
        assert "is the snapshot of another warehouse" in message
        assert "GRAMHOUSE_WAREHOUSE (is its disk mounted?)" in message
        snapshot.rename(snapshot.with_name("moved.duckdb"))
        rig.publish(snapshot)
    assert ask(snapshot, OWNER) == [("second", 0)]


@pytest.mark.usefixtures("first")
def test_a_link_to_its_own_snapshot_is_kept(tmp_path: Path, snapshot: Path) -> None:
    link = tmp_path / "link.duckdb"
    link.symlink_to(snapshot)
    with opened(tmp_path, "first") as rig:
        assert "is a symbolic link" in refused(rig, link)
    assert link.readlink() == snapshot


@pytest.mark.usefixtures("first")
def test_a_damaged_snapshot_is_kept_until_it_is_moved_away(tmp_path: Path, snapshot: Path) -> None:
    snapshot.chmod(0o644)
    os.truncate(snapshot, 20_000)
    with opened(tmp_path, "first") as rig:
        assert "cannot be read" in refused(rig, snapshot)
        snapshot.unlink()
        rig.publish(snapshot)
    assert ask(snapshot, OWNER) == [("first", 2)]


@pytest.mark.usefixtures("first")
def test_a_copy_of_a_warehouse_replaces_the_snapshot(tmp_path: Path, snapshot: Path) -> None:
    shutil.copy(tmp_path / "first.duckdb", tmp_path / "copy.duckdb")
    with opened(tmp_path, "copy") as rig:
        for hour in (60, 61):
            rig.publish(snapshot, hour)
            assert refusal_of(rig.connection, snapshot, draft_of(snapshot)) is None
    assert ask(snapshot, OWNER) == [("first", 2)]
