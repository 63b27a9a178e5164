"""The command line: its options, messages and exit codes, and never a traceback for errors the user can fix."""

import errno
import json
import os
import re
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from flows.cli import app as command_line
from flows.cli.command_table import COMMANDS
from flows.cli.commands.demo import first_day
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from tests.operator import ROOT, Cli, Done

# What cannot be used, and a part of the line that refuses it.
REFUSED: dict[tuple[str, ...], str] = {
    ("nonsense",): "nonsense",
    ("query",): "SQL requires an argument",
    ("query", "SELECT 1", "--format", "xml"): "xml",
    ("query", "SELECT '\udcff'"): "",
    ("status", "--format", "openmetrics", "--json"): "--json",
    ("sandbox", "--port", "-1"): "--port",
    ("runs", "--last", "1" + "0" * 20): "--last",
    ("export", "~nosuchuser/export"): "~nosuchuser",
    ("export", "s3://bucket/out"): "not a local path (got 's3://bucket/out')",
    ("demo", "--folder", "s3://bucket/demo"): "not a local path (got 's3://bucket/demo')",
    ("sync",): "GRAMHOUSE_BASE_URL",
    ("sync", "--busy-wait", "-1"): "--busy-wait",
    ("sync", "--base-url", "http://example.com"): "Fix: use https.",
    ("sync", "--surface", "reels"): "--surface: it must be 'stories' or 'posts'. Fix: ",
    ("sync", "--incremental", "--full-refresh"): "cannot be combined. Fix: use one of them.",
    ("sync", "--warehouse", "\udcff"): "UTF-8",
    ("sync", "--snapshot", "why?.duckdb"): "--snapshot: paths with a question mark",
    ("backfill",): "Nothing is selected. Fix: use --account",
    ("backfill", "--expired-since", "1772323200"): "--expired-since '1772323200' is not a time. Fix: use 2d,",
    ("backfill", "--account"): "requires an argument. Fix: see `gramhouse backfill --help`.",
    ("backfill", "--all", "--reason", "x" * 501): "--reason",
}


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda arguments: ascii(" ".join(arguments)))
def test_what_cannot_be_used_is_one_line_and_no_file(run_cli: Cli, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, out, err = run_cli(*arguments)
    assert (code, bool(out)) == (2, "--json" in arguments)
    [line] = err.splitlines()
    assert line.startswith("✖ ")
    assert REFUSED[arguments] in line
    assert "Fix: " in line
    assert list(tmp_path.iterdir()) == []


REQUIRED = {"query": ["SELECT 1 AS a"], "export": ["out"], "backfill": ["--all"]}
REQUIRED |= {name: ["nobody"] for name in ("explain", "forget")}
WITHOUT_JSON = {"up", "sandbox", "demo", "mcp"}


def refusal(done: Done) -> str:
    """Return the message of a command that was refused; it is one JSON object, too."""
    document = done.json()
    assert done.stdout.count("\n") == 1
    assert (done.code, document.pop("exit_code"), document.pop("state")) == (2, 2, "invalid_parameters")
    assert document.keys() == {"message", "hint"}
    assert done.stderr
    return str(document["message"])


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_refuses_typos(run_cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    code, out, _ = run_cli(command, "--help")
    described, _, shown = " ".join(out.split()).partition("Example: ")
    assert (code, shown) == (0, f"gramhouse {command} {COMMANDS[command].example}".rstrip())
    # The example has options that exist.
    assert {word for word in shown.split() if word.startswith("--")} <= set(described.split())
    monkeypatch.setenv("GRAMHOUSE_CONCURENCY", "7")
    what, fix = (
        "GRAMHOUSE_CONCURENCY: unknown setting. Did you mean GRAMHOUSE_CONCURRENCY?",
        "correct or remove it (docs/settings.md).",
    )
    assert run_cli(command, *REQUIRED.get(command, ())) == (2, "", f"✖ {what} Fix: {fix}\n")
    if command not in WITHOUT_JSON:
        assert refusal(run_cli(command, "--json", *REQUIRED.get(command, ()))) == what


@pytest.mark.usefixtures("service")
def test_a_key_in_a_file_that_others_can_read_is_warned_of(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAMHOUSE_API_KEY")
    file = Path("gramhouse.toml")
    file.write_text('api_key = "sandbox-demo-key"\n', encoding="utf-8")
    file.chmod(0o640)
    warning = "gramhouse.toml contains api_key and is readable by other users. Fix: chmod 600 gramhouse.toml."
    done = run_cli("sync")
    assert (done.code, warning in done.stderr) == (0, True)
    findings = run_cli("doctor", "--json").json()["findings"]
    message = [(found["verdict"], found["message"]) for found in findings if found["check"] in {"key", "configuration"}]
    assert message == [("ok", "from gramhouse.toml: api_key"), ("note", warning)]
    file.chmod(0o600)
    assert warning not in run_cli("doctor").text


def test_a_missing_or_unrelated_snapshot_is_reported_in_one_line(run_cli: Cli) -> None:
    first, unreadable = "`gramhouse sync` creates it", "This version of gramhouse cannot read the snapshot"
    for command, why in (
        *((command.split(), first) for command in ("status", "accounts", "runs", "publish", "compact", "quarantine")),
        (["query", "SELECT 1"], first),
        *(([command, "--snapshot", "other.duckdb"], unreadable) for command in ("status", "accounts", "runs")),
    ):
        duckdb.connect("other.duckdb").close()
        code, out, err = run_cli(*command)
        assert (code, out, len(err.splitlines()), why in err) == (1, "", 1, True)


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize("style", ["csv", "json", "jsonl", "line", "markdown", "table"])
def test_on_a_terminal_rows_steer_nothing(run_cli: Cli, monkeypatch: pytest.MonkeyPatch, style: str) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    text = run_cli("query", "SELECT chr(27) || chr(155) || chr(8238) || 'x' AS x", "-f", style).stdout
    assert re.search("\x1b[^[]|\x1b\\[[^\\dm]|[\x9b\u202e]", text) is None


@pytest.mark.usefixtures("service")
def test_files_that_cannot_be_written_are_found_before_anything_is_asked(run_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for arguments, code, fix in (
        (["--warehouse", "file/w.duckdb"], 1, "Fix: set GRAMHOUSE_WAREHOUSE"),
        (["--snapshot", "file/s.duckdb"], 1, "Fix: set GRAMHOUSE_SNAPSHOT"),
        (["--snapshot", "folder"], 2, "Fix: check GRAMHOUSE_SNAPSHOT"),
        (["--snapshot", "file"], 2, "Fix: check GRAMHOUSE_SNAPSHOT"),
        (["--snapshot", "same.duckdb", "--warehouse", "./same.duckdb"], 2, "is the warehouse itself"),
    ):
        done = run_cli("sync", *arguments)
        assert (done.code, len(done.stderr.splitlines()), fix in done.stderr) == (code, 2, True)
    assert not Path("same.duckdb").exists()


@pytest.mark.parametrize(
    ("error", "message", "lines"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/a/s.duckdb"), "/a/s.duckdb: Permission denied.", 1),
        (RuntimeError("unforeseen"), "Bug in gramhouse: RuntimeError: unforeseen", 10),
    ],
)
def test_an_error_of_the_system_is_one_line_and_a_bug_has_a_traceback(
    run_cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str, lines: int
) -> None:
    def broken(**_: bool) -> None:
        raise error

    monkeypatch.setattr(command_line, "build_app", broken)
    done = run_cli("status", "--json")
    assert (done.code, done.json()["message"].rstrip(".")) == (1, message.rstrip("."))
    assert ("in broken" in done.stderr, len(done.stderr.splitlines()) >= lines) == (lines > 1, True)


@pytest.mark.usefixtures("service")
def test_every_report_is_one_object(run_cli: Cli) -> None:
    commands = ["sync", *sorted({*COMMANDS} - WITHOUT_JSON - {"sync"})]
    result = {command: run_cli(command, "--json", *REQUIRED.get(command, ())).json() for command in commands}
    assert {type(document) for document in result.values()} == {dict}
    assert len(result["accounts"]["accounts"]) == 4
    assert len(result["runs"]["runs"]) == 2
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
    cron_line = re.compile(r"^[\d*][\d*/,-]*(?: +[\d*][\d*/,-]*){4} +(.+)$", re.MULTILINE)
    lines = [line for text in documents for line in cron_line.findall(text)]
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
def test_a_query_that_fails_after_rows_were_written_is_one_object(run_cli: Cli) -> None:
    late = "SELECT CASE WHEN range < 300000 THEN range ELSE error('too far') END AS a FROM range(300001)"
    done = run_cli("query", late, "--json")
    found = done.json()
    assert (done.code, found["exit_code"], found["state"]) == (2, 2, "invalid_parameters")
    assert found["rows"][:2] == [{"a": 0}, {"a": 1}]
    # Where one of DuckDB's threads fails while rows are fetched, it may report that it stopped the others.
    assert all(re.search("too far|Interrupted", text) for text in (found["message"], done.stderr))


def test_output_in_a_pipe_is_utf8_whatever_the_locale(empty: Path) -> None:
    odd = """SELECT 'é😀' AS "ñ", '{"k": "😀"}'::JSON AS j, chr(8238) AS c, 2 AS "ñ" """
    command = [sys.executable, "-m", "flows.cli", "query", odd, "--snapshot", str(empty), "--json"]
    latin = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT, env=latin)
    rows = json.loads(done.stdout.decode())["rows"]
    assert rows == [{"ñ": "é😀", "j": {"k": "😀"}, "c": "\u202e", "ñ_1": 2}]


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
    service = {"GRAMHOUSE_BASE_URL": address, "GRAMHOUSE_API_KEY": "sandbox-demo-key"}
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **service}
    # A query whose reader is gone has failed.
    queries = [] if "|" in where else ["query 'FROM accounts'"]
    for each in (command, *queries):
        script = f"{sys.executable} -m flows.cli {each} {where}; echo ${{PIPESTATUS[0]}} >code"
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, check=True, capture_output=True, text=True)
        assert ((tmp_path / "code").read_text(), "No space left on device" in done.stderr) == (f"{code}\n", code == 1)


SECRET = "canary-51e2"


def test_init_explains_every_setting_and_changes_none(run_cli: Cli) -> None:
    before, file = load(), Path("gramhouse.toml")
    done = run_cli("init")
    assert (done.code, "gramhouse.toml" in done.stdout, file.stat().st_mode & 0o777) == (0, True, 0o600)
    text = file.read_text(encoding="utf-8")
    assert tomllib.loads(text) == {}
    assert load() == before
    for name, field in Settings.model_fields.items():
        assert f"# [{name}]" in text or f"# {name} =" in text
        assert str(field.description) in " ".join(text.replace("\n# ", " ").split())
    # Every line with a default can be set.
    lines = [line[2:] for line in text.splitlines() if " = " in line and not line.endswith("=")]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert load() == before
    done = run_cli("init")
    assert (done.code, "exists already. Fix: " in done.stderr, file.read_text("utf-8")) == (2, True, "\n".join(lines))


def test_config_shows_values_and_origins_but_no_key(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("gramhouse.toml").write_text("# page_size = 1\npage_size = 20\nconcurrency = 3\n", encoding="utf-8")
    monkeypatch.setenv("GRAMHOUSE_API_KEY", SECRET)
    monkeypatch.setenv("gramhouse_concurrency", "7")
    done = run_cli("config")
    assert (done.code, SECRET in done.text) == (0, False)
    found = {row["setting"]: (row["value"], row["origin"]) for row in run_cli("config", "--json").json()["settings"]}
    assert found.keys() == Settings.model_fields.keys()
    assert found["page_size"] == (20, "gramhouse.toml: page_size")
    assert found["concurrency"] == (7, "gramhouse_concurrency")
    assert found["max_wait"] == (3600, "default")
    assert found["api_key"] == ("**********", "GRAMHOUSE_API_KEY")
    for value, origin in found.values():
        assert str(value or "") in done.stdout
        assert origin == "default" or origin in done.stdout


def test_the_folder_of_another_warehouse_is_refused(tmp_path: Path) -> None:
    (tmp_path / "warehouse.duckdb").touch()
    with pytest.raises(SettingsError, match=r"another warehouse\. Fix: choose another"):
        first_day(tmp_path, days=28, now=datetime(2026, 3, 31, 9, tzinfo=UTC))


def test_a_demo_syncs_each_day_once_and_today_again(run_cli: Cli) -> None:
    done = run_cli("demo", "--days", "2")
    assert (done.code, "2 days of a sandbox" in done.stdout, "the most likes" in done.stdout) == (0, True, True)
    again = run_cli("demo")
    assert (again.code, "1 day of a sandbox" in again.stdout, "new" in again.stdout) == (0, True, False)
