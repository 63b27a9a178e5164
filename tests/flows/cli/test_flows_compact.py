"""The command `gramhouse compact`."""

import json
from pathlib import Path

import pytest
from humanize import naturalsize

from connectors.warehouse.storage.connection import connect
from tests.cli_runner import Cli


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "w.duckdb"
    monkeypatch.setenv("GRAMHOUSE_WAREHOUSE", str(path))
    with connect(path) as connection:
        connection.db.execute("CREATE TABLE core.gone AS SELECT md5(n::VARCHAR) AS it FROM range(100000) AS t(n)")
    with connect(path) as connection:
        connection.db.execute("DROP TABLE core.gone")
    return path


def test_it_prints_the_size_before_and_after(warehouse: Path, run_cli: Cli) -> None:
    before = warehouse.stat().st_size
    code, out, _ = run_cli("compact")
    after = warehouse.stat().st_size
    assert after < before
    assert (code, out) == (0, f"Compacted {warehouse}: {naturalsize(before)} before, {naturalsize(after)} now.\n")
    code, out, _ = run_cli("compact", "--json")
    assert (code, json.loads(out)) == (
        0,
        {
            "warehouse": str(warehouse),
            "bytes_before": after,
            "bytes_after": warehouse.stat().st_size,
            "raw": {"parts_before": 0, "parts_after": 0, "bytes_before": 0, "bytes_after": 0, "rows_deleted": 0},
        },
    )
