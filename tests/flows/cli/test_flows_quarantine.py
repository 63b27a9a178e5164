"""The command `gramhouse quarantine`."""

import json
import logging
import re
from pathlib import Path

import duckdb
import pytest

from models.partition import CATALOGUE
from models.values import REASONS
from tests.filling import Scan, begin, land, opened
from tests.operator import Cli
from tests.warehouse.days import ANNA, POSTS, account

NO_ID = REASONS["no_id"]
REASON = "id: String should match pattern"
EVIL = "\x1b[31m[bold]\u202e\nx"


@pytest.fixture(autouse=True)
def _no_log_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate process would not have the log handlers that a test with Prefect has left."""
    for name in (None, "connectors", "flows"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "w.duckdb"
    monkeypatch.setenv("GRAMHOUSE_WAREHOUSE", str(path))
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(tmp_path / "s.duckdb"))
    return path


@pytest.fixture
def rejected(warehouse: Path, run_cli: Cli) -> Path:
    """A warehouse with an account and three media items rejected, published."""
    with opened(warehouse) as files:
        begin(files)
        land(files, Scan(CATALOGUE, "c", 0).page(account(), account("x")))
        scan = Scan(POSTS, "p", 1)
        land(
            files,
            scan.page({"id": "1"}, last=False),
            scan.page(post("a", EVIL + "y" * 1000), post("b"), {"caption": "no id"}),
        )
    assert run_cli("publish")[0] == 0
    return warehouse


def post(uuid: str, caption: str = "x") -> dict[str, str]:
    return {"uuid": uuid, "caption": caption}


def test_rejected_records_are_listed_with_their_requests_and_imported_once_they_have_an_id(
    rejected: Path, run_cli: Cli
) -> None:
    code, out, err = run_cli("quarantine")
    assert (code, err, re.search("[\x1b\u202e]", out)) == (0, "", None)
    lines = out.splitlines()
    assert lines[:2] == ["! 4 records rejected:", f"  3: {NO_ID}"]
    assert lines[2].startswith(f"  1: {REASON}")
    assert lines[4].split() == ["seen_at", "ig_username", "correlation_id", "payload", "surface", "position"]
    assert lines[5].split()[:5] == ["2026-03-01", "03:02", "anna", "p-2", '{"uuid":']
    assert lines[8].startswith("2026-03-01 02:01               c-1")
    rows = run_cli("quarantine", "--json").json()["records"]
    assert len(rows) == 4
    assert json.loads(rows[0].pop("payload")) == post("a", EVIL + "y" * 1000)
    assert rows[0] == {
        "reason": NO_ID, "resource": "media", "account_id": ANNA, "surface": "posts", "page": 2, "position": 0,
        "run_id": "run-1", "correlation_id": "p-2", "seen_at": "2026-03-01T03:02:00+00:00",
        "last_seen_at": "2026-03-01T03:02:00+00:00", "ig_username": "anna",
    }  # fmt: skip
    Path("gramhouse.toml").write_text('[mapping]\nmedia_id = ["/id", "/uuid"]\n', encoding="utf-8")
    code, out, err = run_cli("rebuild")
    assert (code, err, out.splitlines()[1:]) == (0, "", [
        "Imported 2 records from quarantine.", "! 2 records in quarantine. List: `gramhouse quarantine`.",
    ])  # fmt: skip
    with duckdb.connect(str(rejected.with_name("s.duckdb")), read_only=True) as db:
        rows = db.execute("SELECT media_id, ig_username FROM media ORDER BY 1").fetchall()
    assert rows == [("1", "anna"), ("a", "anna"), ("b", "anna")]
    assert run_cli("quarantine").stdout.startswith("! 2 records rejected")


def test_an_empty_quarantine_is_one_friendly_line(warehouse: Path, run_cli: Cli) -> None:
    with opened(warehouse):
        pass
    run_cli("publish")
    assert run_cli("quarantine") == (0, "✔ Quarantine is empty: every received record is in the tables.\n", "")
    assert run_cli("quarantine", "--json").stdout == '{"records": []}\n'
