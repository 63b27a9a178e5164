"""The command `gramhouse compact`."""

import json
import sys
from pathlib import Path

import pytest
from humanize import naturalsize

from connectors.warehouse.storage.connection import connect, writer
from flows.cli.app import main


def run_cli(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gramhouse", "compact", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "w.duckdb"
    monkeypatch.setenv("GRAMHOUSE_WAREHOUSE", str(path))
    with connect(path) as connection:
        connection.db.execute("CREATE TABLE core.gone AS SELECT md5(n::VARCHAR) AS it FROM range(100000) AS t(n)")
    with connect(path) as connection:
        connection.db.execute("DROP TABLE core.gone")
    return path


def test_it_prints_the_size_before_and_after(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = warehouse.stat().st_size
    assert run_cli(monkeypatch) == 0
    after = warehouse.stat().st_size
    assert after < before
    message = capsys.readouterr().out
    assert message == f"Compacted {warehouse}: {naturalsize(before)} before, {naturalsize(after)} now.\n"


def test_programs_read_one_json_document(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = warehouse.stat().st_size
    assert run_cli(monkeypatch, "--json") == 0
    message = json.loads(capsys.readouterr().out)
    assert message == {
        "warehouse": str(warehouse),
        "bytes_before": before,
        "bytes_after": warehouse.stat().st_size,
        "raw": {"parts_before": 0, "parts_after": 0, "bytes_before": 0, "bytes_after": 0, "rows_deleted": 0},
    }


def test_a_warehouse_that_is_held_is_left_alone(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with writer(warehouse, "gramhouse sync", since="then", pause=lambda _: None):
        assert run_cli(monkeypatch) == 4
    message = capsys.readouterr()
    assert message.out == ""
    assert "is held by gramhouse sync" in message.err


def test_without_a_warehouse_the_message_explains_how_to_create_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(monkeypatch, "--warehouse", str(tmp_path / "none.duckdb")) == 1
    assert "`gramhouse sync` creates it" in capsys.readouterr().err
