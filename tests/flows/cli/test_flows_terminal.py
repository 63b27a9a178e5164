"""What others see of a command: text that neither steers a terminal nor is markup, imports, signals, and the log."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from connectors.sandbox.settings import SandboxSettings
from connectors.warehouse.queries.reader import Stream
from flows.cli.table import print_stream
from flows.cli.terminal import clean, out
from tests.api.faults import Action, Rule
from tests.api.server import Api
from tests.operator import KEY, ROOT, Cli, Done, Operator, killed_on_exit, wait_until


@pytest.mark.parametrize("text", ["[red]x[/]", "[link=https://x]y[/link]", "\\[bold]x"])
def test_markup_is_only_text(text: str) -> None:
    stream = io.StringIO()
    Console(file=stream, width=80, force_terminal=True, highlight=False).print(clean(text))
    assert stream.getvalue().strip() == text


@pytest.mark.usefixtures("empty")
def test_output_in_a_pipe_is_text_neither_truncated_nor_padded(run_cli: Cli) -> None:
    long = "repeat('long ', 200) || ':smile: x:b:y end'"
    done = run_cli("query", f"FROM (VALUES ('short'), ({long})) AS t(\"c:b:d\")")
    title, _, *lines = done.stdout.splitlines()[-4:]
    assert (done.code, title, lines[0]) == (0, "c:b:d", "short")
    assert lines[1].endswith("long :smile: x:b:y end")
    assert done.stdout.splitlines() == [line.rstrip() for line in done.stdout.splitlines()]
    assert "x:b:y.duckdb" in run_cli("query", "SELECT 1", "--snapshot", "x:b:y.duckdb").stderr


NUMBER, LETTERS, LONG, SPACED = "17841401234567890", "a caption of 23 letters", f"{'x' * 200} y", f"{'x' * 90} y"


def test_columns_fit_and_only_prose_is_cut(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for width, row, expected in (
        (80, (NUMBER, LETTERS), [f"{NUMBER}  {LETTERS}"]),
        (35, (NUMBER, LETTERS), [f"{NUMBER}  a caption of 23…"]),
        (28, (NUMBER, LETTERS), [f"{NUMBER} a caption…"]),
        (27, (NUMBER, LETTERS), [NUMBER, "(1 more column: b;", "`--format line` shows all)"]),
        (10, (NUMBER, "a word"), [NUMBER[:10], NUMBER[10:], "(1 more", "column: b;"]),
        (80, (LONG, NUMBER), [f"{'x' * 60}…  {NUMBER}"]),
        (80, ("so short", LONG), [f"so short  {'x' * 69}…"]),
        (40, (SPACED, SPACED, NUMBER), [f"xxxxxxxxx… xxxxxxxxxx… {NUMBER}"]),
    ):
        monkeypatch.setattr(out, "width", width)
        print_stream(Stream(("a", "b", "c")[: len(row)], ("VARCHAR",) * len(row), iter([[row]])), "table")
        lines = capsys.readouterr().out.splitlines()
        assert lines[2 : 2 + len(expected)] == expected
        assert max(map(len, lines)) <= width


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("markdown", "| a | b |\n| ---: | --- |\n| 1 | x\\|y |\n| 2 |  |\n"),
        ("jsonl", '{"a":1,"b":"x|y"}\n{"a":2,"b":null}\n'),
        ("line", "a 1\nb x|y\n\na 2\nb NULL\n\n"),
        ("csv", "a,b\n1,x|y\n2,\n"),
        ("json", '{"columns": ["a","b"], "rows": [{"a":1,"b":"x|y"}, {"a":2,"b":null}], "exit_code": 0}\n'),
    ],
)
def test_a_query_is_written_in_every_format_and_to_a_file(empty: Path, run_cli: Cli, style: str, expected: str) -> None:
    asked, target = ("query", "FROM (VALUES (1, 'x|y'), (2, NULL)) AS t(a, b)", "-f", style), empty.with_name("rows")
    code, shown, err = run_cli(*asked)
    assert (code, shown, err) == (0, expected, "(2 rows)\n")
    assert run_cli(*asked, "-o", str(target)) == (0, "", f"(2 rows in {target})\n")
    assert target.read_text() == shown


def test_a_query_does_not_replace_a_file_if_it_fails_or_the_file_of_another_kind(empty: Path, run_cli: Cli) -> None:
    target = empty.with_name("rows.csv")
    target.write_text("mine")
    late = "SELECT CASE WHEN range < 300000 THEN range ELSE error('too far') END AS a FROM range(300001)"
    assert run_cli("query", late, "-f", "csv", "-o", str(target)).code == 2
    assert (target.read_text(), sorted(path.name for path in empty.parent.iterdir())) == (
        "mine", ["rows.csv", "s.duckdb"],
    )  # fmt: skip
    for name in (str(empty), "rows.parquet"):
        done = run_cli("query", "SELECT 1", "-o", name)
        assert (done.code, "is not the format of a query's result" in done.stderr) == (2, True)
    assert run_cli("query", "SELECT 'b' || chr(13) AS a", "-o", str(target)).code == 0
    assert target.read_bytes() == b'a\n"b\r"\n'


HEAVY = {"aiohttp", "duckdb", "httpx", "prefect", "pyarrow", "pydantic", "pydantic_settings", "sqlalchemy"}


# Runs commands one after the other in one process, and prints the modules that each has imported by its end.
PROGRAM = """
import sys
from flows.cli.__main__ import run

for command in sys.argv[1:]:
    sys.argv = ["gramhouse", *command.split()]
    try:
        run()
    except SystemExit as ended:
        assert not ended.code, command
    print(*(name for name, module in sys.modules.items() if module), file=sys.stderr, flush=True)
"""


def imported(*commands: str) -> list[set[str]]:
    """Return what is imported after each of these commands, which must succeed: times depend on the machine."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, *commands]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return [set(line.split()) for line in done.stderr.splitlines() if line.startswith("sys ")]


def test_the_help_and_the_version_import_no_command() -> None:
    short, version, report, config, up = imported("-h", "--version", "report --help", "config --help", "up --help")
    for modules in (short, version):
        assert modules.isdisjoint({*HEAVY, "asyncio"})
        of_connectors = {"buckets", "warehouse", "warehouse.storage", "warehouse.storage.errors"}
        found = {name.removeprefix("connectors.") for name in modules if name.startswith("connectors.")}
        assert found <= of_connectors
    for modules in (report, config):
        assert modules.isdisjoint({"asyncio", "httpx", "jinja2", "prefect", "sqlalchemy"})
    assert up.isdisjoint({"httpx", "prefect", "sqlalchemy"})


@pytest.mark.usefixtures("service")
def test_commands_import_only_the_libraries_they_need(run_cli: Cli) -> None:
    run_cli("sync")
    query, report, status, publish, sync = imported("query SHOW", "report r.html", "status", "publish", "sync")
    for modules in (query, report):
        assert modules.isdisjoint({"pyarrow", "sqlalchemy"})
    # It reads the state, if there is one.
    assert status.isdisjoint({"aiohttp", "httpx", "prefect", "pyarrow"})
    assert publish.isdisjoint({"aiohttp", "httpx", "prefect"})
    assert {"httpx", "duckdb", "sqlalchemy"} <= sync
    assert sync.isdisjoint({"click", "pandas", "prefect", "pygments", "rich.markdown"})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_command_in_which_duckdb_is_busy(empty: Path, number: signal.Signals) -> None:
    # One call of a function, in which DuckDB does not look for an interruption.
    query = "SELECT list_sum(list_transform(range(300000000), x -> x % 7)) AS a"
    with killed_on_exit(Operator(empty.parent).start("query", "--json", query, "--snapshot", str(empty))) as process:
        busy = psutil.Process(process.pid)
        wait_until(lambda: busy.num_threads() >= 3, "the threads of DuckDB")
        before = sum(busy.cpu_times()[:2])
        wait_until(lambda: sum(busy.cpu_times()[:2]) >= before + 0.1, "the use of CPU time")
        process.send_signal(number)
        # A shell shows 128 plus the number.
        assert (process.wait(20), process.communicate()) == (-number, ("", ""))


BUSY = """
import asyncio, signal, threading
from flows.cli.signals import Stopped, run_until_signalled

async def work(_):
    print("begun", flush=True)
    {wait}

signal.signal(signal.SIGHUP, signal.SIG_IGN)
try:
    run_until_signalled(work, lambda: "Fix: resume.")
except Stopped as stopped:
    print(stopped, flush=True)
    raise SystemExit(stopped.code)
"""


@pytest.mark.parametrize(
    ("wait", "numbers", "code", "said"),
    [
        ("await asyncio.sleep(60)", [signal.SIGHUP, signal.SIGINT], 130, "Stopped by SIGINT. Fix: resume.\n"),
        # Not even a cancelled event loop ends while one of its threads is busy.
        ("await asyncio.to_thread(threading.Event().wait)", [signal.SIGINT, signal.SIGTERM], -signal.SIGTERM, ""),
    ],
    ids=["ignored", "second"],
)
def test_a_signal_closes_a_run_another_ends_it(
    tmp_path: Path, wait: str, numbers: list[signal.Signals], code: int, said: str
) -> None:
    with killed_on_exit(Operator(tmp_path).start_python("-c", BUSY.format(wait=wait), env={})) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(numbers[0])
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(numbers[1])
        assert (process.wait(20), process.stdout.read()) == (code, said)


FAULTS = (
    Rule(Action("error", code="api_internal_error"), surface="posts", times=1),
    Rule(Action("error", code="api_forbidden"), surface="stories", times=1),
    Rule(Action("error", code="rate_limited", retry_after=9000), surface="posts", nth=2),
)


def logged(done: Done) -> list[dict[str, Any]]:
    """Return the JSON objects on standard error."""
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    fields = {"time", "level", "message", "run", "account", "partition", "code", "correlation_id"}
    assert all(line.keys() >= fields for line in lines)
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    return lines


def test_a_sync_logs_its_run_and_the_context_of_each_error(tmp_path: Path) -> None:
    with Api(SandboxSettings(accounts=2, posts=60, seed=11), FAULTS).serve() as service:
        operator = Operator(tmp_path, {"GRAMHOUSE_BASE_URL": service.url, "GRAMHOUSE_API_KEY": KEY})
        begun, *lines = logged(operator.run("sync", "--log-format", "json", "--json", code=3))
    ended = lines[-1]
    assert "gramhouse sync of http://127.0.0.1" in begun["message"]
    assert (ended["level"], ended["run"] is not None) == ("warning", True)
    found = {line["code"]: line for line in lines if line["account"] is not None}
    assert {line["run"] for line in found.values()} == {ended["run"]}
    retried, denied, deferred = (found[code] for code in ("api_internal_error", "api_forbidden", "rate_limited"))
    for line in found.values():
        assert len(line["correlation_id"]) == 26
        assert line["partition"] == f"{'stories' if line is denied else 'posts'} of account {line['account']}"
    assert f"({retried['username']})" in retried["message"]
    # Drawn between nothing and the longest delay, and rounded.
    assert retried["retry_in"] >= 0
    assert (denied["level"], denied["http_status"]) == ("warning", 403)
    assert (bool(deferred["resume_after"]), "cooldown until" in deferred["message"]) == (True, True)


def test_a_refusal_is_a_line_of_the_log(tmp_path: Path) -> None:
    [line] = logged(Operator(tmp_path).run("sync", "--nonsense", "--log-format=json", code=2))
    assert line["level"] == "error"
