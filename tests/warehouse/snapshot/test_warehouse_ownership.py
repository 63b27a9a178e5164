"""A snapshot is not replaced by another warehouse that has never listed all accounts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.snapshot import ownership
from connectors.warehouse.snapshot.ownership import CODE, refusal
from connectors.warehouse.snapshot.publish import draft_of, publish
from connectors.warehouse.snapshot.reader import open_snapshot
from connectors.warehouse.storage.connection import connect
from connectors.warehouse.storage.errors import WarehouseUnusable
from tests.warehouse.rig import POSTS, Rig, Row, account, at


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return tmp_path / "out" / "analytics.duckdb"


@contextmanager
def opened(folder: Path, name: str) -> Iterator[Rig]:
    """A warehouse with this name and id."""
    with connect(folder / f"{name}.duckdb", new_id=lambda: name) as connection:
        yield Rig(connection)


def fill(rig: Rig) -> None:
    rig.catalogue("c", 0, [account()])
    rig.scan(POSTS, "p", 1, [{"id": "1"}, {"id": "2"}])


def put(rig: Rig, snapshot: Path, hour: float = 60) -> None:
    publish(rig.connection, snapshot, at=at(hour), version="1")


def owner(snapshot: Path) -> list[Row]:
    with open_snapshot(snapshot) as found:
        return found.query("SELECT p.warehouse_id, (SELECT count(*) FROM media) FROM published AS p").rows


@pytest.fixture
def first(tmp_path: Path, snapshot: Path) -> None:
    with opened(tmp_path, "first") as rig:
        fill(rig)
        put(rig, snapshot)
    assert owner(snapshot) == [("first", 2)]


def without_id(snapshot: Path) -> None:
    """Turn the file into a snapshot of an older version."""
    snapshot.chmod(0o644)
    with duckdb.connect(snapshot) as db:
        db.execute("ALTER TABLE published DROP COLUMN warehouse_id")


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize("is_older", [False, True])
@pytest.mark.parametrize("has_a_page", [False, True])
def test_a_warehouse_without_a_complete_catalogue_does_not_replace_a_foreign_snapshot(
    tmp_path: Path, snapshot: Path, *, is_older: bool, has_a_page: bool
) -> None:
    if is_older:
        without_id(snapshot)
    before = snapshot.read_bytes()
    with opened(tmp_path, "second") as rig:
        if has_a_page and not is_older:
            rig.catalogue("c", 0, [account()], last=False)
        with pytest.raises(WarehouseUnusable) as raised:
            put(rig, snapshot)
        message = str(raised.value)
        assert "\n" not in message
        assert "is the snapshot of another warehouse and is not replaced" in message
        assert "Fix: check GRAMHOUSE_WAREHOUSE" in message
        warning = refusal(rig.connection, snapshot, draft_of(snapshot))
        assert warning is not None
        assert (warning.code, warning.makes_partial) == (CODE, True)
        assert message == f"{warning.detail} Fix: {warning.hint}"
    assert snapshot.read_bytes() == before
    assert [each.name for each in snapshot.parent.iterdir()] == [snapshot.name]


@pytest.mark.usefixtures("first")
def test_a_warehouse_with_a_complete_catalogue_replaces_a_foreign_snapshot_and_reports_it(
    tmp_path: Path, snapshot: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership._log, "disabled", False)  # noqa: SLF001 - other tests' configuration
    with opened(tmp_path, "second") as rig:
        rig.catalogue("c", 0, [account()])
        assert refusal(rig.connection, snapshot, draft_of(snapshot)) is None
        put(rig, snapshot)
        assert caplog.messages == [f"{snapshot} was the snapshot of another warehouse; replaced by this warehouse's."]
        put(rig, snapshot, 61)
        assert len(caplog.messages) == 1
    assert owner(snapshot) == [("second", 0)]


def test_a_warehouse_replaces_its_own_snapshot_without_a_complete_catalogue(tmp_path: Path, snapshot: Path) -> None:
    with opened(tmp_path, "first") as rig:
        rig.catalogue("c", 0, [account()], last=False)
        for hour in (60, 61):
            put(rig, snapshot, hour)
            assert refusal(rig.connection, snapshot, draft_of(snapshot)) is None
        without_id(snapshot)
        put(rig, snapshot, 62)
    assert owner(snapshot) == [("first", 0)]


@pytest.mark.parametrize("content", [b"", b"no database", None])
def test_a_file_that_is_not_a_snapshot_is_replaced(tmp_path: Path, snapshot: Path, content: bytes | None) -> None:
    snapshot.parent.mkdir()
    if content is None:
        with duckdb.connect(snapshot) as db:
            db.execute("CREATE TABLE other AS SELECT 1")
    else:
        snapshot.write_bytes(content)
    with opened(tmp_path, "first") as rig:
        assert refusal(rig.connection, snapshot, draft_of(snapshot)) is None
        put(rig, snapshot)
    assert owner(snapshot) == [("first", 0)]


@pytest.mark.usefixtures("first")
def test_a_foreign_log_does_not_hide_the_owner_of_the_snapshot(tmp_path: Path, snapshot: Path) -> None:
    snapshot.with_name(snapshot.name + ".wal").write_bytes(b"of nothing we know")
    with opened(tmp_path, "second") as rig, pytest.raises(WarehouseUnusable):
        put(rig, snapshot)
