"""Commands as processes: what they import, their signals, and the log of `--log-format json`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from connectors.sandbox.settings import SandboxSettings
from tests.api.faults import Action, Rule
from tests.api.server import Api
from tests.operator import KEY, ROOT, Cli, Done, Operator, killed_on_exit, wait_until

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
