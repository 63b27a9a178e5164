"""Commands as processes: what they import, their signals, and the log of `--log-format json`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from tests.api.faults import Action, Rule
from tests.api.server import Api
from tests.operator import COMMAND_LINE, ROOT, wait_until

HEAVY = {"aiohttp", "duckdb", "httpx", "prefect", "pyarrow", "pydantic", "pydantic_settings", "sqlalchemy"}


def imported(*arguments: str, **environment: str) -> set[str]:
    """Return the modules that a command, which must succeed, has imported by its end: times depend on the machine."""
    program = (
        "import atexit, sys\n"
        f"sys.argv = ['gramhouse', *{arguments!r}]\n"
        "atexit.register(lambda: print(*(n for n, m in sys.modules.items() if m), file=sys.stderr))\n"
        "from flows.cli.__main__ import run\n"
        "run()\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)
    return set(done.stderr.splitlines()[-1].split())


def test_the_help_and_the_version_import_no_command() -> None:
    for option in ("-h", "--version"):
        modules = imported(option)
        assert modules.isdisjoint({*HEAVY, "asyncio"})
        of_connectors = {"buckets", "warehouse", "warehouse.storage", "warehouse.storage.errors"}
        found = {name.removeprefix("connectors.") for name in modules if name.startswith("connectors.")}
        assert found <= of_connectors
    for command in ("report", "config"):
        assert imported(command, "--help").isdisjoint({"asyncio", "httpx", "jinja2", "prefect", "sqlalchemy"})
    assert imported("up", "--help").isdisjoint({"httpx", "prefect", "sqlalchemy"})


@pytest.mark.usefixtures("service")
def test_commands_import_only_the_libraries_they_need() -> None:
    sync = imported("sync")
    assert {"httpx", "duckdb", "sqlalchemy"} <= sync
    assert sync.isdisjoint({"click", "pandas", "prefect", "pygments", "rich.markdown"})
    assert imported("publish").isdisjoint({"aiohttp", "httpx", "prefect"})
    # It reads the state, if there is one.
    assert imported("status").isdisjoint({"aiohttp", "httpx", "prefect", "pyarrow"})
    for command in (["query", "FROM media"], ["report", "r.html"]):
        assert imported(*command).isdisjoint({"pyarrow", "sqlalchemy"}), command


# One call of a function, in which DuckDB does not look for an interruption.
UNINTERRUPTED = "SELECT list_sum(list_transform(range(300000000), x -> x % 7)) AS a"


def started(*arguments: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_in_which_duckdb_is_busy(empty: Path, number: signal.Signals) -> None:
    with started(*COMMAND_LINE, "query", "--json", UNINTERRUPTED, "--snapshot", str(empty)) as process:
        try:
            busy = psutil.Process(process.pid)
            wait_until(lambda: busy.num_threads() >= 3, "the threads of DuckDB")
            before = sum(busy.cpu_times()[:2])
            wait_until(lambda: sum(busy.cpu_times()[:2]) >= before + 0.1, "the use of CPU time")
            process.send_signal(number)
            # A shell shows 128 plus the number.
            assert (process.wait(20), process.communicate()) == (-number, ("", ""))
        finally:
            process.kill()


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
# Not even a cancelled event loop ends while one of its threads is busy.
ENDLESS = "await asyncio.to_thread(threading.Event().wait)"


@pytest.mark.parametrize(
    ("wait", "numbers", "code", "said"),
    [
        ("await asyncio.sleep(60)", [signal.SIGINT], 130, "Stopped by SIGINT. Fix: resume.\n"),
        ("await asyncio.sleep(60)", [signal.SIGHUP, signal.SIGTERM], 143, "Stopped by SIGTERM. Fix: resume.\n"),
        (ENDLESS, [signal.SIGINT, signal.SIGTERM], -signal.SIGTERM, ""),
    ],
    ids=["closes", "ignored", "second"],
)
def test_a_signal_closes_a_run_another_ends_it(wait: str, numbers: list[signal.Signals], code: int, said: str) -> None:
    with started("-c", BUSY.format(wait=wait)) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            for number in numbers:
                process.send_signal(number)
                if len(numbers) > 1 and number is numbers[0]:
                    with pytest.raises(subprocess.TimeoutExpired):
                        process.wait(1)
            assert (process.wait(20), process.stdout.read()) == (code, said)
        finally:
            process.kill()


FIELDS = {"time", "level", "message", "run", "account", "partition", "code", "correlation_id"}
FAULTS = (
    Rule(Action("error", code="api_internal_error"), surface="posts", times=1),
    Rule(Action("error", code="api_forbidden"), surface="stories", times=1),
    Rule(Action("error", code="rate_limited", retry_after=9000), surface="posts", nth=2),
)


@pytest.fixture(scope="module")
def faulty() -> Iterator[dict[str, str]]:
    with in_thread(Api(SandboxSettings(accounts=2, posts=60, seed=11), FAULTS)) as url:
        yield {"GRAMHOUSE_BASE_URL": url, "GRAMHOUSE_API_KEY": "sandbox-demo-key"}


def logged(*arguments: str, code: int, **environment: str) -> list[dict[str, Any]]:
    """Run a command; return the JSON objects on standard error."""
    env, command = {**os.environ, "PYTHONPATH": str(ROOT), **environment}, [sys.executable, *COMMAND_LINE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == code, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert all(line.keys() >= FIELDS for line in lines)
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    return lines


def test_a_sync_logs_its_run_and_the_context_of_each_error(faulty: dict[str, str]) -> None:
    begun, *lines = logged("sync", "--log-format", "json", "--json", code=3, **faulty)
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


@pytest.mark.parametrize(
    ("arguments", "code"), [("sync --nonsense --log-format json", 2), ("publish --log-format=json", 1)]
)
def test_a_refusal_is_a_line_of_the_log(arguments: str, code: int) -> None:
    [line] = logged(*arguments.split(), code=code, GRAMHOUSE_WAREHOUSE="/dev/null")
    assert line["level"] == "error"


def test_prefect_leaves_the_lines_of_a_command(faulty: dict[str, str]) -> None:
    nowhere = faulty | {"PREFECT_API_URL": "http://127.0.0.1:9/api"}
    lines = logged("sync", "--log-format", "json", code=1, **nowhere)
    assert [line["level"] for line in lines] == ["info", "error"]
    assert "does not answer as the API of a Prefect server" in lines[1]["message"]
