"""Files of an older schema are changed by numbered scripts; other files are refused in one line and not changed."""

from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.maintenance.inspection import inspect
from connectors.warehouse.storage import schema_number
from connectors.warehouse.storage.connection import connect
from tests.warehouse.rig import T0, Rig, Row, refusal


def ask(path: Path, query: str) -> list[Row]:
    with duckdb.connect(str(path), read_only=True) as db:
        return db.execute(query).fetchall()


def change(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as db:
        for statement in statements:
            db.execute(statement)


def inspected(path: Path) -> bool:
    return inspect(path, "gramhouse doctor", now=T0, pause=lambda _: None).is_current


@pytest.fixture
def warehouse(path: Path) -> Path:
    with connect(path):
        pass
    return path


@pytest.fixture
def folder(tmp_path: Path, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a change, newer than the warehouse, which has a row."""
    change(warehouse, "INSERT INTO ops.hide_salt VALUES ('https://here')")
    folder = tmp_path / "changes"
    folder.mkdir()
    (folder / "0002_note.sql").write_text(
        "ALTER TABLE ops.hide_salt ADD COLUMN note VARCHAR;\nUPDATE ops.hide_salt SET note = 'two';\n"
    )
    monkeypatch.setattr(schema_number, "FOLDER", folder)
    return folder


def test_a_warehouse_of_an_older_schema_is_changed_once(folder: Path, warehouse: Path) -> None:
    (folder / "0003_more.sql").write_text(
        "ALTER TABLE ops.hide_salt ADD COLUMN more VARCHAR; UPDATE ops.hide_salt SET more = note || ', three'"
    )
    assert not inspected(warehouse)
    for _ in range(2):
        with connect(warehouse):
            pass
        row = "SELECT salt, note, more, schema_number FROM ops.hide_salt, ops.warehouse"
        assert ask(warehouse, row) == [("https://here", "two", "two, three", 3)]
    assert inspected(warehouse)


def test_a_change_that_fails_is_reported_and_leaves_the_file_as_the_one_before(folder: Path, warehouse: Path) -> None:
    bad = folder / "0003_bad.sql"
    bad.write_text("CREATE TABLE core.half (i BIGINT); UPDATE ops.hide_salt SET nothing = 1")
    for _ in range(2):
        message = refusal(lambda: connect(warehouse).__enter__())
        assert str(warehouse) in message
        assert "changed to schema 3" in message
        assert "nothing" in message
        assert ask(warehouse, "SELECT schema_number FROM ops.warehouse") == [(2,)]
        assert ask(warehouse, "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'half'") == [(0,)]
    bad.write_text("UPDATE ops.hide_salt SET note = 'three'")
    with connect(warehouse):
        pass
    assert ask(warehouse, "SELECT note, schema_number FROM ops.hide_salt, ops.warehouse") == [("three", 3)]


REFUSED = [
    ("CREATE TABLE ops.alembic_version AS SELECT '0028' AS version_num", "by gramhouse 1.0 or older. Fix: move it"),
    ("UPDATE ops.warehouse SET schema_number = 4711", "by a newer gramhouse (its schema has number 4711"),
    ("DELETE FROM ops.warehouse", "not one that gramhouse wrote as its warehouse"),
    ("DROP TABLE ops.warehouse", "not one that gramhouse wrote as its warehouse"),
]


@pytest.mark.parametrize(("changed", "why"), REFUSED)
def test_a_warehouse_of_another_version_is_refused_and_not_changed(warehouse: Path, changed: str, why: str) -> None:
    change(warehouse, changed)
    before = warehouse.read_bytes()
    for opened in (lambda: connect(warehouse).__enter__(), lambda: inspected(warehouse)):
        message = refusal(opened)
        assert str(warehouse) in message
        assert why in message
        assert "\n" not in message
    assert warehouse.read_bytes() == before


def test_an_unrelated_file_is_refused_and_not_changed(path: Path) -> None:
    change(path, "CREATE TABLE precious AS SELECT 1 AS it")
    before = path.read_bytes()
    assert "main.precious" in refusal(lambda: connect(path).__enter__())
    assert path.read_bytes() == before


def test_a_snapshot_is_not_a_warehouse(path: Path, tmp_path: Path) -> None:
    with connect(path) as connection:
        Rig(connection).publish(tmp_path / "s.duckdb")
    assert "GRAMHOUSE_WAREHOUSE" in refusal(lambda: connect(tmp_path / "s.duckdb").__enter__())
