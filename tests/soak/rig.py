"""Repeated syncs of one warehouse, in this process or each in a new one."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.config.options import SyncOptions
from flows.config.settings import Settings, load
from flows.engine.resources import build_request, open_resources
from flows.pipeline import run_sync
from models.runs import RunState
from tests.e2e.processes import KEY, TIMEOUT, Operator, SandboxProcess
from tests.soak.measuring import files, rows, vitals
from tests.soak.samples import Sample, Vitals

Watch = Callable[[Sample], None]

_ROOT = Path(__file__).parents[2]
# Few accounts, so that a run is short: a leak shows in each run.
WORLD = ("--accounts", "8", "--posts", "30", "--seed", "11")
# An account that leaves is more than a tenth of so few, and the runs follow each other in seconds.
_OPTIONS = SyncOptions(accept_removals=True)


class BadRun(Exception):  # noqa: N818 - what it is
    """A run was not complete, so its samples are invalid."""


@contextmanager
def served(*options: str) -> Iterator[SandboxProcess]:
    """Serve the API in a separate process during the block: this one's memory is measured."""
    command = [sys.executable, "-m", "tests.odd_api", *options]
    process = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield SandboxProcess(process.stdout.readline().strip())
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT)


def settings(folder: Path, service: SandboxProcess) -> Settings:
    """Return the settings of a sync into a folder."""
    return load(
        base_url=service.url,
        api_key=KEY,
        warehouse=folder / "warehouse.duckdb",
        snapshot=folder / "analytics.duckdb",
    )


def days(runs: int) -> Iterator[tuple[int, int]]:
    """Yield each run, from 1, with its day: every second run finds changes."""
    for run in range(1, runs + 1):
        yield run, run // 2


async def _sync(result: Settings) -> None:
    async with open_resources(result, "a soak") as resources:
        report = await run_sync(build_request(result, _OPTIONS), resources)
    if report.state is not RunState.COMPLETE:
        message = f"a run ended {report.state}: {report.failure_groups} {report.warnings}"
        raise BadRun(message)


async def soak(folder: Path, service: SandboxProcess, *, runs: int, every: int, watch: Watch) -> None:
    """Sync `runs` times in this process and measure after every `every` runs; raise BadRun if a run fails."""
    result = settings(folder, service)
    for run, day in days(runs):
        service.day(day)
        service.forget()
        began = time.perf_counter()
        await _sync(result)
        seconds = time.perf_counter() - began
        if run % every == 0:
            there = rows(result.snapshot_file())
            watch(Sample(run, vitals(), files(result.warehouse, result.snapshot_file()), there, seconds))


def soak_fresh(folder: Path, service: SandboxProcess, *, runs: int, every: int, watch: Watch) -> None:
    """Sync `runs` times, each in a new process, and measure the files; raise BadRun if a run fails."""
    operator = Operator(folder, {"GRAMHOUSE_BASE_URL": service.url, "GRAMHOUSE_API_KEY": KEY})
    command = [sys.executable, "-m", "flows.cli", "sync", "--json", "--accept-removals"]
    for run, day in days(runs):
        service.day(day)
        service.forget()
        began = time.perf_counter()
        process = subprocess.run(
            command, cwd=_ROOT, env=operator.environment(), capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - began
        if process.returncode:
            message = f"a process ended with code {process.returncode}: {process.stderr}"
            raise BadRun(message)
        if run % every == 0:
            there = rows(operator.snapshot)
            watch(Sample(run, Vitals(0.0), files(operator.warehouse, operator.snapshot), there, seconds))
