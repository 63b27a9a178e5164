"""The command `gramhouse quarantine`."""

import json
import re
from pathlib import Path

import pytest

from models.feeds import CATALOGUE
from models.values import REASONS
from tests.filling import Scan, begin, land, opened
from tests.operator import Cli
from tests.warehouse.days import POSTS, account

EVIL = {"uuid": "a", "caption": "\x1b[31m[bold]\u202e\nx" + "y" * 1000}


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "w.duckdb"
    monkeypatch.setenv("GRAMHOUSE_WAREHOUSE", str(path))
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(tmp_path / "s.duckdb"))
    return path


def test_rejected_records_are_listed_until_they_have_an_id(warehouse: Path, run_cli: Cli) -> None:
    with opened(warehouse) as files:
        begin(files)
        land(files, Scan(CATALOGUE, "c", 0).page(account(), account("x")))
        scan = Scan(POSTS, "p", 1)
        land(files, scan.page({"id": "1"}, last=False), scan.page(EVIL, {"uuid": "b"}, {"caption": "no id"}))
    run_cli("publish")
    code, out, err = run_cli("quarantine")
    assert (code, err, re.search("[\x1b\u202e]", out)) == (0, "", None)
    lines = out.splitlines()
    assert lines[:2] == ["! 4 records rejected:", f"  3: {REASONS['no_id']}"]
    assert lines[2].startswith("  1: id: String should match pattern")
    assert lines[4].split() == ["seen_at", "ig_username", "correlation_id", "payload", "surface", "position"]
    assert lines[5].split()[:5] == ["2026-03-01", "03:02", "anna", "p-2", '{"uuid":']
    assert lines[8].startswith("2026-03-01 02:01               c-1")
    [first, *_] = run_cli("quarantine", "--json").json()["records"]
    assert (json.loads(first["payload"]), first["position"], first["run_id"]) == (EVIL, 0, "run-1")
    Path("gramhouse.toml").write_text('[mapping]\nmedia_id = ["/id", "/uuid"]\n', encoding="utf-8")
    assert "Quarantine: 2 imported, " in run_cli("rebuild").stdout
    assert run_cli("quarantine").stdout.startswith("! 2 records rejected")
