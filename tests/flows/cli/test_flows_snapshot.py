"""`gramhouse quarantine`, and the snapshot in a bucket, which commands publish, and read here and elsewhere."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from connectors.buckets import BucketError
from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from models.feeds import CATALOGUE
from models.values import REASONS
from tests.buckets.s3 import s3_server
from tests.operator import KEY, Cli, Operator
from tests.security.canary import holding
from tests.warehouse.rig import POSTS, account, opened_with_state

EVIL = {"uuid": "a", "caption": "\x1b[31m[bold]\u202e\nx" + "y" * 1000}


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "w.duckdb"
    monkeypatch.setenv("GRAMHOUSE_WAREHOUSE", str(path))
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(tmp_path / "s.duckdb"))
    return path


def test_rejected_records_are_listed_until_they_have_an_id(warehouse: Path, run_cli: Cli) -> None:
    with opened_with_state(warehouse) as rig:
        rig.begin_run()
        rig.full_scan(account(), account("x"), partition=CATALOGUE)
        rig.wait(1)
        scan = rig.begin(POSTS)
        scan.page({"id": "1"})
        scan.close(EVIL, {"uuid": "b"}, {"caption": "no id"})
        rig.merge()
    run_cli("publish")
    code, out, err = run_cli("quarantine")
    assert (code, err, re.search("[\x1b\u202e]", out)) == (0, "", None)
    lines = out.splitlines()
    assert lines[:2] == ["! 4 records rejected:", f"  3: {REASONS['no_id']}"]
    assert lines[2].startswith("  1: id: String should match pattern")
    assert lines[4].split() == ["seen_at", "ig_username", "correlation_id", "payload", "surface", "position"]
    assert lines[5].split()[:5] == ["2026-03-01", "03:00", "anna", "correlation-3", '{"uuid":']
    assert lines[8].startswith("2026-03-01 02:00               correlation-1")
    [first, *_] = run_cli("quarantine", "--json").json()["records"]
    assert (json.loads(first["payload"]), first["position"], first["run_id"]) == (EVIL, 0, "run-1")
    Path("gramhouse.toml").write_text('[mapping]\nmedia_id = ["/id", "/uuid"]\n', encoding="utf-8")
    assert "imported 2 " in run_cli("rebuild").text
    assert run_cli("quarantine").stdout.startswith("! 2 records rejected")


Machines = Callable[[str], Operator]


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture
def on(s3: dict[str, str], tmp_path: Path) -> Iterator[Machines]:
    """A function that returns the operator of a machine with a folder of its own; all have one snapshot in a bucket."""
    with in_thread(Sandbox(SandboxSettings(accounts=4, posts=3))) as url:
        snapshot = f"s3://bucket/{tmp_path.name}/analytics.duckdb"
        service = {"GRAMHOUSE_BASE_URL": url, "GRAMHOUSE_API_KEY": KEY, "GRAMHOUSE_SNAPSHOT": snapshot}

        def machine(name: str) -> Operator:
            (tmp_path / name).mkdir(exist_ok=True)
            return Operator(tmp_path / name, s3 | service, here=True, cwd=tmp_path / name)

        yield machine


def accounts(operator: Operator) -> int:
    rows = operator.run("query", "SELECT count(*) AS n FROM accounts", "--json").json()["rows"]
    return int(rows[0]["n"])


def snapshot_check(operator: Operator) -> str:
    found = [each for each in operator.run("doctor", "--json").json()["findings"] if each["check"] == "snapshot"]
    return str(found[0]["message"])


def test_it_is_published_and_read_here_and_on_another_machine(on: Machines) -> None:
    writer, analyst = on("writer"), on("analyst")
    url = writer.env["GRAMHOUSE_SNAPSHOT"]
    for command in (["query", "SELECT 1"], ["status"]):
        [line] = analyst.run(*command, code=1).stderr.splitlines()
        assert f"There is no snapshot at {url}. Fix: run `gramhouse sync` where the warehouse is, or correct" in line

    assert writer.sync()["snapshot"] == url
    assert snapshot_check(writer) == f"{url} can be written"
    # On the writer's machine, readers do not need the bucket.
    assert accounts(Operator(writer.folder, writer.env | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})) == 4

    assert accounts(analyst) == 4
    assert analyst.run("status", "--json").json()["status_file"] is None
    assert analyst.run("report", "--json").json()["report"] == str(analyst.folder / "report.html")
    assert len(analyst.run("runs", "--json").json()["runs"]) == 1
    assert snapshot_check(analyst).startswith(f"{analyst.snapshot} was published at ")
    before = analyst.snapshot.read_bytes()
    assert (before, analyst.snapshot.stat().st_mode & 0o777) == (writer.snapshot.read_bytes(), 0o444)
    with analyst.snapshot.open("rb") as reader:
        assert f"snapshot {url} snapshot bytes " in writer.run("publish").text
        assert accounts(analyst) == 4
        assert analyst.snapshot.read_bytes() == writer.snapshot.read_bytes() != before
        assert reader.read() == before


def test_a_run_whose_upload_failed_is_unpublished_and_carried_on(on: Machines) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise BucketError("the upload failed.")

    writer = on("writer")
    with patch("connectors.buckets.SnapshotBucket.publish", fail):
        assert writer.sync(code=1)["message"] == "the upload failed."
    found = writer.run("status", "--json", code=3).json()
    last = found["last_run"]
    assert found["attention"] == ["unpublished"]
    assert (last["state"], last["error_code"], last["detail"]) == ("complete", None, "the upload failed")
    [run] = writer.run("runs", "--json").json()["runs"]
    assert (run["state"], run["accounts"]) == ("complete", 4)
    after = writer.sync()
    assert (after["requests"], after["resumed_runs"]) == (0, [run["run_id"]])
    assert writer.run("status", "--json").json()["attention"] == []
    assert accounts(on("analyst")) == 4


def test_neither_another_warehouse_nor_a_download_replaces_what_is_there(on: Machines) -> None:
    on("writer").sync()
    other, analyst = on("other"), on("analyst")
    for message in (other.sync(code=1)["message"], other.run("publish", code=1).stderr):
        assert "is the snapshot of another warehouse and is not replaced" in message
    analyst.snapshot.write_text("mine")
    [line] = analyst.run("query", "SELECT 1", code=1).stderr.splitlines()
    assert "and is not replaced. Fix: " in line
    assert analyst.snapshot.read_text() == "mine"
    analyst.snapshot.unlink()
    assert accounts(analyst) == 4


def test_a_forgotten_account_is_in_no_object(on: Machines) -> None:
    writer, analyst = on("writer"), on("analyst")
    for command in ("sync", "publish", "publish"):
        writer.run(command)
    [(account, name)] = writer.ask("SELECT account_id, ig_username FROM accounts ORDER BY ALL LIMIT 1")
    writer.run("forget", account, "--yes")
    assert accounts(analyst) == 3
    assert not holding(analyst.folder, account) | holding(analyst.folder, name)
