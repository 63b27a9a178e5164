"""The snapshot in a bucket: commands publish it, and read it on the writer's machine and on another."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from connectors.buckets.address import BucketError
from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from tests.buckets.s3 import s3_server
from tests.operator import Cli, run_here
from tests.security.canary import holding

COUNT = "SELECT count(*) AS n FROM accounts"


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture
def run_cli(monkeypatch: pytest.MonkeyPatch, s3: dict[str, str], tmp_path: Path) -> Iterator[Cli]:
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GRAMHOUSE_API_KEY", "sandbox-demo-key")
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", f"s3://bucket/{tmp_path.name}/analytics.duckdb")
    with in_thread(Sandbox(SandboxSettings(accounts=4, posts=3))) as url:
        monkeypatch.setenv("GRAMHOUSE_BASE_URL", url)
        yield run_here


def _at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Switch to the folder and environment of another machine."""
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    return folder


def _json(run_cli: Cli, *arguments: str, code: int = 0) -> Any:  # noqa: ANN401 - JSON is anything
    done = run_cli(*arguments, "--json")
    assert done.code == code, done.stderr
    return done.json()


def test_it_is_published_and_read_here_and_on_another_machine(
    run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"s3://bucket/{tmp_path.name}/analytics.duckdb"
    analyst = _at(tmp_path / "analyst", monkeypatch)
    for command in (["query", COUNT], ["status"]):
        code, _, err = run_cli(*command)
        assert (code, len(err.splitlines())) == (1, 1)
        assert f"There is no snapshot at {url}. Fix: run `gramhouse sync` where the warehouse is, or correct" in err

    operator = _at(tmp_path / "operator", monkeypatch)
    assert _json(run_cli, "sync")["snapshot"] == url
    found = {one["check"]: one["message"] for one in _json(run_cli, "doctor")["findings"]}
    assert found["bucket"] == f"{url} can be written"
    with monkeypatch.context() as away:
        # On the writer's machine, readers do not need the bucket.
        away.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        assert _json(run_cli, "query", COUNT)["rows"] == [{"n": 4}]

    _at(analyst, monkeypatch)
    assert _json(run_cli, "query", COUNT)["rows"] == [{"n": 4}]
    assert _json(run_cli, "status")["status_file"] is None
    assert _json(run_cli, "report")["report"] == "data/report.html"
    assert len(_json(run_cli, "runs")["runs"]) == 1
    found = {one["check"]: one["message"] for one in _json(run_cli, "doctor")["findings"]}
    assert found["bucket"] == f"{url} can be read; a copy is at data/analytics.duckdb"
    copy = analyst / "data" / "analytics.duckdb"
    assert copy.read_bytes() == (operator / "data" / "analytics.duckdb").read_bytes()
    assert copy.stat().st_mode & 0o777 == 0o444

    before = copy.read_bytes()
    with copy.open("rb") as reader:
        _at(operator, monkeypatch)
        code, out, _ = run_cli("publish")
        assert (code, out.startswith(f"Published {url} (")) == (0, True)
        _at(analyst, monkeypatch)
        assert _json(run_cli, "query", "SELECT count(*) AS n FROM published")["rows"] == [{"n": 1}]
        assert copy.read_bytes() == (operator / "data" / "analytics.duckdb").read_bytes()
        assert copy.read_bytes() != before
        assert reader.read() == before


def test_an_unusable_bucket_is_reported_in_one_line_before_any_request(
    run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _at(tmp_path / "operator", monkeypatch)
    code, _, err = run_cli("sync", "--snapshot", "s3://none/s.duckdb")
    last = err.splitlines()[-1]
    assert (code, "the bucket s3://none cannot be used" in last) == (1, True)
    assert "Fix: check the bucket's name" in last
    assert not (tmp_path / "operator" / "data" / "warehouse.duckdb").exists()


def test_a_run_whose_upload_failed_is_interrupted_and_carried_on(
    run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise BucketError("the upload failed.")

    _at(tmp_path / "operator", monkeypatch)
    with monkeypatch.context() as broken:
        broken.setattr("connectors.buckets.snapshot_bucket.SnapshotBucket.publish", fail)
        assert _json(run_cli, "sync", code=1)["message"] == "the upload failed."
    found = _json(run_cli, "status", code=3)
    last = found["last_run"]
    assert found["attention"] == ["interrupted"]
    assert (last["state"], last["error_code"], last["detail"]) == ("interrupted", None, "the upload failed")
    [run] = _json(run_cli, "runs")["runs"]
    assert (run["state"], run["accounts"]) == ("interrupted", 4)
    after = _json(run_cli, "sync")
    assert (after["requests"], after["resumed_runs"]) == (0, [run["run_id"]])
    assert _json(run_cli, "status")["attention"] == []
    _at(tmp_path / "analyst", monkeypatch)
    assert _json(run_cli, "query", COUNT)["rows"] == [{"n": 4}]


def test_a_warehouse_leaves_the_bucket_of_another_one(
    run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _at(tmp_path / "operator", monkeypatch)
    _json(run_cli, "sync")
    _at(tmp_path / "other", monkeypatch)
    warnings = _json(run_cli, "sync", code=3)["findings"]
    assert [warning["code"] for warning in warnings] == ["snapshot_not_replaced"]
    code, _, err = run_cli("publish")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "is the snapshot of another warehouse and is not replaced" in err
    _at(tmp_path / "analyst", monkeypatch)
    assert _json(run_cli, "query", COUNT)["rows"] == [{"n": 4}]


@pytest.mark.parametrize("name", ["notes.txt", pytest.param("sales.duckdb", marks=pytest.mark.long)])
def test_a_download_replaces_no_other_file(
    run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", f"s3://bucket/{name}")
    _at(tmp_path / "operator", monkeypatch)
    _json(run_cli, "sync")
    _at(tmp_path / "analyst", monkeypatch)
    file = tmp_path / "analyst" / "data" / name
    file.parent.mkdir()
    if name == "notes.txt":
        file.write_text("mine")
    else:
        with duckdb.connect(file) as db:
            db.execute("CREATE TABLE sales AS SELECT 1")
    before = file.read_bytes()
    code, _, err = run_cli("query", COUNT)
    assert (code, len(err.splitlines())) == (1, 1)
    assert "and is not replaced. Fix: " in err
    assert file.read_bytes() == before
    file.unlink()
    assert _json(run_cli, "query", COUNT)["rows"] == [{"n": 4}]


def test_a_forgotten_account_is_in_no_object(run_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAMHOUSE_WAREHOUSE", str(tmp_path / "w.duckdb"))
    for command in ("sync", "publish", "publish"):
        assert run_cli(command)[0] == 0
    query = "SELECT account_id, ig_username FROM accounts ORDER BY ALL LIMIT 1"
    [row] = _json(run_cli, "query", query)["rows"]
    _json(run_cli, "forget", row["account_id"], "--yes")
    _at(tmp_path / "analyst", monkeypatch)
    assert _json(run_cli, "query", COUNT)["rows"] == [{"n": 3}]
    assert not holding(tmp_path / "analyst", row["account_id"]) | holding(tmp_path / "analyst", row["ig_username"])
