"""`--json` writes one JSON object for every exit code, and exit codes are right even if a stream is closed or full."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flows.cli import app as command_line
from flows.cli.command_table import COMMANDS
from tests.flows.cli.test_flows_cli import REQUIRED, WITHOUT_JSON, refusal
from tests.operator import ROOT, Cli

OBJECTS = sorted(set(COMMANDS) - WITHOUT_JSON)


def environment(address: str) -> dict[str, str]:
    python = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    return {**python, "GRAMHOUSE_BASE_URL": address, "GRAMHOUSE_API_KEY": "sandbox-demo-key"}


@pytest.mark.usefixtures("service")
def test_every_report_is_one_object(run_cli: Cli) -> None:
    result = {
        command: run_cli(command, "--json", *REQUIRED.get(command, ())).json()
        for command in ["sync", *(each for each in OBJECTS if each != "sync")]
    }
    assert {type(document) for document in result.values()} == {dict}
    assert len(result["accounts"]["accounts"]) == 4
    assert len(result["runs"]["runs"]) == 1 + (OBJECTS.index("backfill") < OBJECTS.index("runs"))
    assert result["quarantine"]["records"] == []
    assert {"accounts", "media"} <= {table["name"] for table in result["describe"]["tables"]}
    assert (result["doctor"]["exit_code"], result["sync"]["exit_code"]) == (0, 0)
    media = run_cli("describe", "media", "--json").json()
    assert (media["table"], media["columns"][0]["name"]) == ("media", "account_id")
    assert result["query"] == {"columns": ["a"], "rows": [{"a": 1}], "exit_code": 0}
    assert run_cli("query", "SELECT 1 AS a LIMIT 0", "--json").json()["rows"] == []
    for style in (["--json"], ["-f", "json"], ["-fjson"], ["--format=json"]):
        assert refusal(run_cli("query", "SELECT nope", *style))
        assert refusal(run_cli("query", "SELECT 1", *style, "--snapshot", "s3://"))


CRON_LINE = re.compile(r"^[\d*][\d*/,-]*(?: +[\d*][\d*/,-]*){4} +(.+)$", re.MULTILINE)


def test_the_cron_lines_of_the_docs_work_without_an_environment(tmp_path: Path, address: str) -> None:
    home, collector = tmp_path / "gramhouse", tmp_path / "node_exporter"
    collector.mkdir()
    (home / ".venv").mkdir(parents=True)
    (home / ".venv" / "bin").symlink_to(Path(sys.prefix) / "bin")
    (home / "api-key").write_text("sandbox-demo-key")
    (home / "api-key").chmod(0o600)
    documents = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))]
    [settings] = re.findall(r"```toml\n(# /srv/gramhouse/gramhouse.toml\n.*?)```", "".join(documents), re.DOTALL)
    settings = settings.replace("https://api.example.com", address).replace("/srv/gramhouse", str(home))
    (home / "gramhouse.toml").write_text(settings)
    lines = [line for text in documents for line in CRON_LINE.findall(text)]
    assert len(lines) == 3
    for line in lines:
        command = line.replace("/srv/gramhouse", str(home)).replace("/var/lib/node_exporter", str(collector))
        done = subprocess.run(["env", "-i", "sh", "-c", command], cwd="/", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    runs = [json.loads(line) for line in (home / "runs.jsonl").read_text().splitlines()]
    assert [(run["state"], run["exit_code"]) for run in runs] == [("complete", 0), ("nothing_to_do", 0)]
    assert len(re.findall(r"^\S+ \S+ UTC gramhouse sync of ", (home / "sync.log").read_text(), re.MULTILINE)) == 2
    assert "gramhouse_snapshot_readable 1" in (collector / "gramhouse.prom").read_text()


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("style", [["--json"], ["-f", "json"]])
def test_a_query_that_fails_after_rows_were_written_is_one_object(run_cli: Cli, style: list[str]) -> None:
    late = "SELECT CASE WHEN range < 300000 THEN range ELSE error('too far') END AS a FROM range(300001)"
    done = run_cli("query", late, *style)
    found = done.json()
    assert (done.code, found["exit_code"], found["state"]) == (2, 2, "invalid_parameters")
    # Where one of DuckDB's threads fails while rows are fetched, it may report that it stopped the others.
    assert re.search("too far|Interrupted", found["message"])
    assert re.search("too far|Interrupted", done.stderr)
    assert found["rows"][:2] == [{"a": 0}, {"a": 1}]


@pytest.mark.parametrize("style", ["json", "csv"])
def test_output_in_a_pipe_is_utf8_whatever_the_locale(empty: Path, style: str) -> None:
    odd = """SELECT 'é😀' AS "ñ", '{"k": "😀"}'::JSON AS j, chr(8238) AS c, 2 AS "ñ" """
    command = [sys.executable, "-m", "flows.cli", "query", odd, "-f", style, "--snapshot", str(empty)]
    latin = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    written = subprocess.run(command, capture_output=True, check=True, cwd=ROOT, env=latin).stdout.decode()
    if style == "json":
        assert json.loads(written)["rows"] == [{"ñ": "é😀", "j": {"k": "😀"}, "c": "\u202e", "ñ_1": 2}]
    else:
        assert [*csv.reader(written.splitlines())] == [["ñ", "j", "c", "ñ_1"], ["é😀", '{"k": "😀"}', "\u202e", "2"]]


def test_a_bug_is_one_object_and_a_traceback(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: bool) -> None:
        message = "unforeseen"
        raise RuntimeError(message)

    monkeypatch.setattr(command_line, "build_app", broken)
    done = run_cli("status", "--json")
    assert (done.code, done.json()["message"]) == (1, "Bug in gramhouse: RuntimeError: unforeseen")
    assert "in broken" in done.stderr


@pytest.mark.parametrize(
    ("command", "where", "code"),
    [
        ("sync", ">&-", 0),
        ("sync --json -v", ">/dev/full", 1),
        pytest.param("sync", "2>&1 | :", 0, marks=pytest.mark.long),
        pytest.param("sync --json -v", "2>/dev/full", 0, marks=pytest.mark.long),
        pytest.param("sync --json -v", "2>&-", 0, marks=pytest.mark.long),
    ],
)
def test_a_run_completes_if_output_fails(tmp_path: Path, address: str, command: str, where: str, code: int) -> None:
    for each in (command, "export out"):
        script = f"{sys.executable} -m flows.cli {each} {where}; echo ${{PIPESTATUS[0]}} >code"
        subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment(address), check=True, capture_output=True)
        assert (tmp_path / "code").read_text() == f"{code}\n"
    assert (tmp_path / "out").is_dir()


def test_rows_that_cannot_be_written_are_a_failure(empty: Path) -> None:
    for style in ("table", "json"):
        script = f'{sys.executable} -m flows.cli query "SELECT 1" -f {style} --snapshot {empty} >/dev/full'
        done = subprocess.run(["bash", "-c", script], cwd=ROOT, check=False, capture_output=True, text=True)
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
