"""The command line: its options and messages, and never a traceback for errors the user can fix."""

import errno
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from flows.cli import app as command_line
from flows.cli.command_table import COMMANDS
from flows.clock import SystemClock
from tests.operator import Cli, Done

HUGE = "1" + "0" * 20


# What cannot be used, and a part of the line that refuses it.
REFUSED: dict[tuple[str, ...], str] = {
    ("nonsense",): "nonsense",
    ("query",): "SQL requires an argument",
    ("query", "SELECT 1", "--format", "xml"): "xml",
    ("query", "SELECT '\udcff'"): "",
    ("status", "--format", "openmetrics", "--json"): "--json",
    ("sandbox", "--port", "-1"): "--port",
    ("runs", "--last", HUGE): "--last",
    ("export", "~nosuchuser/export"): "~nosuchuser",
    ("export", "s3://bucket/out"): "not a local path (got 's3://bucket/out')",
    ("demo", "--folder", "s3://bucket/demo"): "not a local path (got 's3://bucket/demo')",
    ("sync",): "GRAMHOUSE_BASE_URL",
    ("sync", "--busy-wait", "-1"): "--busy-wait",
    ("sync", "--page-size", "0"): "--page-size: it must be greater than or equal to 1. Fix: ",
    ("sync", "--base-url", "http://example.com"): "Fix: use https.",
    ("sync", "--surface", "reels"): "--surface: it must be 'stories' or 'posts'. Fix: ",
    ("sync", "--incremental", "--full-refresh"): "cannot be combined. Fix: use one of them.",
    ("sync", "--warehouse", "\udcff"): "UTF-8",
    ("sync", "--warehouse", "~nosuchuser/w.duckdb"): "~nosuchuser",
    ("sync", "--warehouse", ":memory:"): "(got ':memory:')",
    ("sync", "--snapshot", "why?.duckdb"): "--snapshot: paths with a question mark",
    ("backfill",): "Nothing is selected. Fix: use --account",
    ("backfill", "--expired-since", "1772323200"): "--expired-since '1772323200' is not a time. Fix: use 2d,",
    ("backfill", "--account"): "requires an argument. Fix: see `gramhouse backfill --help`.",
    ("backfill", "--all", "--reason", "x" * 501): "--reason",
}


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda arguments: ascii(" ".join(arguments)))
def test_what_cannot_be_used_is_refused_in_one_line_and_writes_nothing(
    run_cli: Cli, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    code, out, err = run_cli(*arguments)
    assert (code, bool(out)) == (2, "--json" in arguments)
    [line] = err.splitlines()
    assert line.startswith("✖ ")
    assert REFUSED[arguments] in line
    assert "Fix: " in line
    assert list(tmp_path.iterdir()) == []


def test_expired_since_is_a_date_or_so_long_ago(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    monkeypatch.setattr("flows.cli.commands.sync._run", lambda options, *_, **__: begun.append(options))
    for text in ("20260301", "2026-03-01T02:00:00+02:00", "36h"):
        assert run_cli("backfill", "--expired-since", text).code == 0
    *dates, recent = (options.selection().expired_since for options in begun)
    assert dates == [datetime(2026, 3, 1, tzinfo=UTC)] * 2
    assert timedelta(0) < SystemClock().now() - timedelta(hours=36) - recent < timedelta(minutes=1)


REQUIRED = {
    "explain": ["nobody"],
    "forget": ["nobody"],
    "query": ["SELECT 1 AS a"],
    "export": ["out"],
    "backfill": ["--all"],
}
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
def test_every_command_has_help_and_refuses_what_is_mistyped(
    run_cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    code, out, _ = run_cli(command, "--help")
    described, _, shown = " ".join(out.split()).partition("Example: ")
    assert (code, shown) == (0, f"gramhouse {command} {COMMANDS[command].example}".rstrip())
    # The example has options that exist.
    assert {word for word in shown.split() if word.startswith("--")} <= set(described.split())
    if command not in WITHOUT_JSON:
        # A query may begin like an option.
        for wrong in ([] if command == "query" else ["--nonsense"], ["--snapshot"]):
            assert refusal(run_cli(command, "--json", *wrong))
    monkeypatch.setenv("GRAMHOUSE_CONCURENCY", "7")
    what, fix = (
        "GRAMHOUSE_CONCURENCY: unknown setting. Did you mean concurrency?",
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
    assert warning not in run_cli("sync").stderr


FIRST = "`gramhouse sync` creates it"
UNREADABLE = "This version of gramhouse cannot read the snapshot"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        *((command.split(), FIRST) for command in ("status", "accounts", "runs", "publish", "compact", "quarantine")),
        (["query", "SELECT 1"], FIRST),
        *(([command, "--snapshot", "other.duckdb"], UNREADABLE) for command in ("status", "accounts", "runs")),
    ],
)
def test_a_missing_or_unrelated_snapshot_is_reported_in_one_line(run_cli: Cli, command: list[str], why: str) -> None:
    duckdb.connect("other.duckdb").close()
    code, out, err = run_cli(*command)
    assert (code, out, len(err.splitlines()), why in err) == (1, "", 1, True)


@pytest.mark.usefixtures("service")
def test_on_a_terminal_raw_rows_steer_nothing(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    run_cli("sync")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for style in ("csv", "json"):
        text = run_cli("query", "SELECT chr(27) || chr(155) || chr(8238) || 'x' AS x", "-f", style).stdout
        assert re.search("[\x1b\x9b\u202e]", text) is None


@pytest.mark.usefixtures("service")
def test_files_that_cannot_be_written_are_found_before_anything_is_asked(run_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    code, _, err = run_cli("sync", "--warehouse", "file/w.duckdb")
    assert (code, len(err.splitlines()), "Fix: set GRAMHOUSE_WAREHOUSE" in err) == (1, 2, True)
    for wrong, expected, fix in (("file/s.duckdb", 1, "set"), ("folder", 2, "check"), ("file", 2, "check")):
        code, _, err = run_cli("sync", "--snapshot", wrong)
        assert (code, len(err.splitlines())) == (expected, 2)
        assert f"Fix: {fix} GRAMHOUSE_SNAPSHOT" in err
        assert "File exists" not in err
        hint = run_cli("sync", "--json", "--snapshot", wrong).json()["hint"]
        assert hint.startswith(f"{fix} GRAMHOUSE_SNAPSHOT")
    code, _, err = run_cli("sync", "--snapshot", "same.duckdb", "--warehouse", "./same.duckdb")
    assert (code, "is the warehouse itself" in err, Path("same.duckdb").exists()) == (2, True, False)


def test_errors_of_the_operating_system_are_reported_in_one_line(run_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: bool) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/somewhere/s.duckdb")

    monkeypatch.setattr(command_line, "build_app", refused)
    line = "✖ /somewhere/s.duckdb: Permission denied. Fix: check path, permissions and disk.\n"
    assert run_cli() == (1, "", line)
