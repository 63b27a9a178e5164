"""SIGINT and SIGTERM end every command with 130 and 143, whatever it is doing."""

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

SIGNALS = pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
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
    assert err == f"! Stopped by {number.name}. Fix: run the same command again.\n"
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
import asyncio, threading
from flows.cli.signals import ended_by_signals, run_until_signalled

async def work():
    print("begun", flush=True)
    # Not even a cancelled event loop ends while one of its threads is busy.
    await asyncio.to_thread(threading.Event().wait)

with ended_by_signals(lambda stopped: print(stopped, flush=True)):
    run_until_signalled(lambda _: work(){advice})
"""


@contextmanager
def begun(folder: Path, advice: str = "", before: str = "") -> Iterator[subprocess.Popen[str]]:
    """Start a process that is busy, which has begun; `before` is code that it runs first. It is killed at the end."""
    process = started(folder, ["-c", f"{before}{BUSY.format(advice=advice)}"])
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@SIGNALS
def test_maintenance_that_cannot_be_cancelled_is_ended(folder: Path, number: signal.Signals, code: int) -> None:
    with begun(folder) as process:
        process.send_signal(number)
        assert process.wait(20) == code
        assert process.stdout is not None
        assert process.stdout.read() == f"Stopped by {number.name}. Fix: run the same command again.\n"


def test_a_run_has_time_to_close_until_the_second_signal(folder: Path) -> None:
    with begun(folder, advice=", lambda: 'Fix: resume.'") as process:
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
