"""A signal ends a command at once, as a crash does. Only a run closes first, and exits with 128 plus the number."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.operator import ROOT, wait_until

# One call of a function, in which DuckDB does not look for an interruption.
UNINTERRUPTED = "SELECT list_sum(list_transform(range(300000000), x -> x % 7)) AS a"


def started(*arguments: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_in_which_duckdb_is_busy(empty: Path, number: signal.Signals) -> None:
    with started("-m", "flows.cli", "query", "--json", UNINTERRUPTED, "--snapshot", str(empty)) as process:
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
def test_a_run_closes_at_the_first_signal_and_ends_at_the_second(
    wait: str, numbers: list[signal.Signals], code: int, said: str
) -> None:
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
