"""Only a snapshot of this warehouse is replaced; any other file at its path is kept, and named in one line."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from tests.warehouse.days import POSTS, Days, account, ask, opened_days, refusal


@contextmanager
def opened(folder: Path, name: str) -> Iterator[Days]:
    """A warehouse with this id, in a folder with this name."""
    (folder / name).mkdir(exist_ok=True)
    with opened_days(folder / name) as days:
        days.rig.db.execute("UPDATE core.warehouse SET id = ?", [name])
        yield days


OWNER = "SELECT p.warehouse_id, (SELECT count(*) FROM media) FROM published AS p"


@pytest.fixture
def first(tmp_path: Path, snapshot: Path) -> None:
    with opened(tmp_path, "first") as days:
        days.catalogue(0, [account()])
        days.scan(POSTS, 1, [{"id": "1"}, {"id": "2"}])
        days.publish(snapshot)
    assert ask(snapshot, OWNER) == [("first", 2)]


def refused(days: Days, snapshot: Path) -> str:
    """Return the error message; assert that the run would be warned, and that nothing was changed."""
    before = snapshot.read_bytes() if snapshot.is_file() else None
    names = sorted(path.name for path in snapshot.parent.iterdir())
    message = refusal(lambda: days.publish(snapshot))
    assert f"{snapshot} " in message
    assert " and is not replaced. Fix: " in message
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
    "folder": (lambda path: path.mkdir(), "is not a regular file"),
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
    with opened(tmp_path, "first") as days:
        days.catalogue(0, [account()])
        assert why in refused(days, snapshot)


@pytest.mark.usefixtures("first")
def test_the_snapshot_of_another_warehouse_is_kept(tmp_path: Path, snapshot: Path) -> None:
    with opened(tmp_path, "second") as days:
        days.catalogue(0, [account()])
        message = refused(days, snapshot)
        assert "is the snapshot of another warehouse" in message
        assert "GRAMHOUSE_WAREHOUSE (is its disk mounted?)" in message
        snapshot.rename(snapshot.with_name("moved.duckdb"))
        days.publish(snapshot)
    assert ask(snapshot, OWNER) == [("second", 0)]


@pytest.mark.usefixtures("first")
def test_a_link_to_its_own_snapshot_is_kept(tmp_path: Path, snapshot: Path) -> None:
    link = tmp_path / "link.duckdb"
    link.symlink_to(snapshot)
    with opened(tmp_path, "first") as days:
        assert "is a symbolic link" in refused(days, link)
    assert link.readlink() == snapshot


@pytest.mark.usefixtures("first")
def test_a_damaged_snapshot_is_kept_until_it_is_moved_away(tmp_path: Path, snapshot: Path) -> None:
    snapshot.chmod(0o644)
    os.truncate(snapshot, 20_000)
    with opened(tmp_path, "first") as days:
        assert "cannot be read" in refused(days, snapshot)
        snapshot.unlink()
        days.publish(snapshot)
    assert ask(snapshot, OWNER) == [("first", 2)]
