"""SIGINT, SIGTERM and SIGHUP end every command with 128 plus their number, whatever it is doing."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.settings import SandboxSettings
from tests import process_state
from tests.e2e.processes import ROOT, Operator
from tests.handoff.days import snapshot_of

ENDLESS = "(SELECT count(*) FROM range(100000000) AS a, range(100000000) AS b WHERE a.range + b.range = -1) = 0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a snapshot whose accounts are never found."""
    folder = tmp_path_factory.mktemp("busy")
    snapshot = snapshot_of(folder, Sandbox(SandboxSettings(accounts=2, posts=3)), range(1))
    snapshot.chmod(0o600)
    with duckdb.connect(str(snapshot)) as db:
        ((view,),) = db.execute("SELECT sql FROM duckdb_views() WHERE view_name = 'accounts'").fetchall()
        body = view.partition(" AS ")[2].rstrip(";")
        db.execute(f"CREATE OR REPLACE VIEW accounts AS FROM ({body}) WHERE {ENDLESS}")
    return folder


def started(folder: Path, arguments: list[str]) -> subprocess.Popen[str]:
    return Operator(folder).start_python(*arguments, cwd=folder, env={"PYTHONPATH": str(ROOT)})


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


# A command that DuckDB ends at once with each of the signals; `make long` tests all commands with both.
_COMMANDS = ("accounts", "describe", "query FROM+accounts", "query FROM+accounts -f csv", "report", "report --json",
             "export out", "export out --json")  # fmt: skip
_QUICK = {
    ("report --json", signal.SIGTERM),
    ("export out --json", signal.SIGINT),
}
_BUSY = [
    pytest.param(command, number, marks=() if (command, number) in _QUICK else pytest.mark.long)
    for command in _COMMANDS
    for number in (signal.SIGINT, signal.SIGTERM)
]


@pytest.mark.parametrize(("line", "number"), _BUSY)
def test_a_signal_ends_a_command_in_which_duckdb_is_busy(folder: Path, line: str, number: signal.Signals) -> None:
    command, code = [word.replace("+", " ") for word in line.split()], 128 + number
    before = files(folder)
    process = started(folder, ["-m", "flows.cli", *command])
    try:
        # More than the imports take.
        process_state.wait_for_cpu_use(process.pid, seconds=1)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == code
    assert err == f"✖ Stopped by {number.name}. Fix: run the same command again.\n"
    if "--json" in command:
        assert json.loads(out) == {
            "state": "stopped",
            "exit_code": code,
            "message": f"Stopped by {number.name}.",
            "hint": "run the same command again.",
        }
    else:
        # The column names of CSV are written before the first row.
        assert len(out.splitlines()) == ("csv" in command)
    # What is left if DuckDB did not notice the signal in time is removed by the next export.
    assert {path for path in files(folder) - before if ".out.exporting" not in path.parts} == set()


BUSY = """
import asyncio, os, threading
from flows.cli.signals import raise_at_signals, run_maintenance, run_until_signalled

async def work():
    print("begun", flush=True)
    # Not even a cancelled event loop ends while one of its threads is busy.
    await asyncio.to_thread(threading.Event().wait)

raise_at_signals()
try:
    {run}
except KeyboardInterrupt as stopped:
    print(stopped, flush=True)
    os._exit(stopped.code)
"""


@contextmanager
def begun(folder: Path, run: str) -> Iterator[subprocess.Popen[str]]:
    """Start a process that is busy, which has begun. It is killed at the end."""
    process = started(folder, ["-c", BUSY.format(run=run)])
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_maintenance_that_cannot_be_cancelled_is_ended(folder: Path, number: signal.Signals) -> None:
    with begun(folder, "run_maintenance(work())") as process:
        process.send_signal(number)
        assert process.wait(20) == 128 + number
        assert process.stdout is not None
        assert process.stdout.read() == f"Stopped by {number.name}. Fix: run the same command again.\n"


def test_a_run_has_time_to_close_until_the_second_signal(folder: Path) -> None:
    with begun(folder, "run_until_signalled(lambda _: work(), lambda: 'Fix: resume.')") as process:
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143


def test_a_run_of_a_shell_that_ignores_signals_is_not_ended_by_them(folder: Path) -> None:
    before = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    process = started(folder, ["-c", before + BUSY.format(run="run_maintenance(work())")])
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    finally:
        process.kill()
        process.communicate()
