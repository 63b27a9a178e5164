"""Hundreds of runs on one warehouse, in this process: `python -m tests.soak --runs 1000`."""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from flows.cli.__main__ import prepare_process
from flows.config.options import SyncOptions
from flows.config.settings import load
from flows.engine.resources import build_request, open_resources
from flows.pipeline import run_sync
from models.runs import RunState
from tests.e2e.processes import COMMAND_LINE, KEY, TIMEOUT
from tests.soak.growth import Limits, Sample, complaints, measured, slope, warm

_ROOT = Path(__file__).parents[2]
# Few accounts, so that a run is short: a leak shows in each run.
_WORLD = ("--accounts", "8", "--posts", "30", "--seed", "11")
# An account that leaves is more than a tenth of so few, and the runs follow each other in seconds.
_OPTIONS = SyncOptions(accept_removals=True)
_HEAD = f"{'run':>6} {'RSS MB':>8} {'fds':>5} {'threads':>8} {'tasks':>6} {'warehouse KB':>13} {'log KB':>7}"
_HEAD += f" {'snapshot KB':>12} {'files':>6} {'rows':>8} {'s':>6}\n"


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _line(one: Sample, seconds: float) -> str:
    return (
        f"{one.run:>6} {one.resident / 1024:>8.1f} {one.descriptors:>5} {one.threads:>8} {one.tasks:>6}"
        f" {one.warehouse:>13,.0f} {one.log:>7,.0f} {one.snapshot:>12,.0f} {len(one.names):>6} {one.rows:>8,}"
        f" {seconds:>6.2f}\n"
    )


@contextmanager
def _served() -> Iterator[str]:
    """Serve the API in a separate process during the block, and yield its URL: this one's memory is measured."""
    command = [sys.executable, *COMMAND_LINE, "sandbox", "--port", "0", *_WORLD]
    process = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split("GRAMHOUSE_BASE_URL=")[1].split()[0]
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT)


async def _soak(folder: Path, url: str, *, runs: int, every: int) -> list[Sample]:
    """Sync `runs` times and measure after every `every` runs."""
    warehouse, snapshot = folder / "warehouse.duckdb", folder / "analytics.duckdb"
    settings = load(base_url=url, api_key=KEY, warehouse=warehouse, snapshot=snapshot)
    samples: list[Sample] = []
    for run in range(1, runs + 1):
        # Every second run finds changes.
        async with httpx.AsyncClient() as control:
            (await control.post(f"{url}/_sandbox/day", json={"day": run // 2})).raise_for_status()
        began = time.perf_counter()
        async with open_resources(settings, "a soak") as resources:
            report = await run_sync(build_request(settings, _OPTIONS), resources)
        assert report.state is RunState.COMPLETE, (report.state, report.failure_groups, report.warnings)
        if run % every == 0:
            samples.append(measured(run, warehouse, snapshot))
            _say(_line(samples[-1], time.perf_counter() - began))
    return samples


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the syncs; return 1 if something grew that should not."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args(arguments).runs
    # As in a process of gramhouse: other allocators keep memory that this one returns.
    prepare_process()
    limits = Limits(warm_up=runs // 4)
    with _served() as url, tempfile.TemporaryDirectory() as folder:
        _say(f"{runs} runs:\n{_HEAD}")
        samples = asyncio.run(_soak(Path(folder), url, runs=runs, every=max(1, runs // 50)))
    found = list(complaints(samples, limits))
    per_run = slope([(one.run, one.resident) for one in warm(samples, limits)])
    _say(f"After run {limits.warm_up}: memory {per_run:+.2f} KB per run.\n")
    _say("".join(f"GREW: {one}\n" for one in found) or "Nothing grew that should not.\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
