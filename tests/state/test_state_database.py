"""The state file is created, or refused in one line that says what to do."""

import sqlite3
from pathlib import Path

import pytest

from connectors.state.database import open_state, open_state_read_only
from models.files import WarehouseUnusable
from models.tables import STATE


def change(file: Path, statement: str) -> None:
    with sqlite3.connect(file) as db:
        db.execute(statement)
    db.close()


def test_a_new_file_has_all_tables_and_is_durable(tmp_path: Path) -> None:
    with open_state(tmp_path / "state.sqlite") as state:
        found = state.read(
            lambda connection: set(connection.exec_driver_sql("SELECT name FROM sqlite_master").scalars())
        )
        assert set(STATE.tables) <= found
        pragmas = [
            state.read(lambda connection, name=name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())  # type: ignore[misc]
            for name in ("journal_mode", "synchronous")
        ]
        assert pragmas == ["wal", 2]


def test_there_is_nothing_to_read_before_the_first_command(tmp_path: Path) -> None:
    with open_state_read_only(tmp_path / "state.sqlite") as state:
        assert state is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE identity SET schema_number = 99", "newer gramhouse wrote it (schema 99; .* Fix: upgrade gramhouse"),
        ("DROP TABLE identity", "not a state file of gramhouse. Fix: move it away"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_unchanged(tmp_path: Path, statement: str, message: str) -> None:
    file = tmp_path / "state.sqlite"
    with open_state(file):
        pass
    change(file, statement)
    for opened in (open_state, open_state_read_only):
        with pytest.raises(WarehouseUnusable, match=message.replace("(", r"\(")), opened(file):
            pass


@pytest.mark.parametrize(
    "content", [b"not a database, but a text that is long enough\n" * 100, b"SQLite format 3\0short"]
)
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "state.sqlite"
    file.write_bytes(content)
    with pytest.raises(WarehouseUnusable, match=r"^[^\n]* cannot be used: [^\n]* Fix: [^\n]*$"), open_state(file):
        pass
    assert file.read_bytes() == content
