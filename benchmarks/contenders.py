"""Who is measured: the fetch alone, gramhouse, dlt; each as the command and environment of a process."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.beside import ROOT, Beside
from benchmarks.process import Ended, run
from benchmarks.samples import Sample

# Settings of the person who measures must not decide what is measured.
_FOREIGN = ("GRAMHOUSE_", "PREFECT_", "PYTHON")


@dataclass(frozen=True, slots=True)
class Job:
    """A process to be measured; it writes its report as a JSON object on the last line."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    folder: Path


@dataclass(frozen=True, slots=True)
class Home:
    """Where a gramhouse keeps its files."""

    folder: Path

    @property
    def warehouse(self) -> Path:
        """The writer's file."""
        return self.folder / "warehouse.duckdb"

    @property
    def raw(self) -> Path:
        """The raw store."""
        return self.folder / "raw"

    @property
    def snapshot(self) -> Path:
        """The analysts' file."""
        return self.folder / "analytics.duckdb"


def plain_environment(**settings: str) -> dict[str, str]:
    """Return this process's environment without anybody's settings, and with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return {**kept, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **settings}


def floor(url: str, folder: Path, in_flight: int) -> Job:
    """Fetch the pages and throw them away."""
    command = (sys.executable, "-m", "benchmarks.floor", url, "--concurrency", str(in_flight))
    return Job(command, plain_environment(), folder)


def gramhouse(url: str, home: Home, in_flight: int, *words: str, module: str = "flows.cli") -> Job:
    """Run a command of gramhouse; without words, a sync of the posts."""
    home.folder.mkdir(parents=True, exist_ok=True)
    # Every server has a port of its own, and so an address that is not the one a kept warehouse was filled from.
    typed = words or ("sync", "--surface", "posts", "--rebind")
    env = plain_environment(
        GRAMHOUSE_BASE_URL=url,
        GRAMHOUSE_API_KEY="bench-key",
        GRAMHOUSE_WAREHOUSE=str(home.warehouse),
        GRAMHOUSE_SNAPSHOT=str(home.snapshot),
        GRAMHOUSE_CONCURRENCY=str(in_flight),
        PREFECT_API_URL="",
    )
    return Job((sys.executable, "-m", module, *typed, "--json"), env, home.folder)


def dlt(url: str, folder: Path, in_flight: int, python: Path, disposition: str = "append") -> Job:
    """Load the same into DuckDB with dlt, tuned as its documentation advises; see benchmarks.dlt_sync."""
    folder.mkdir(parents=True, exist_ok=True)
    cores = str(os.cpu_count() or 1)
    env = plain_environment(
        RUNTIME__DLTHUB_TELEMETRY="false",
        RUNTIME__LOG_LEVEL="ERROR",
        EXTRACT__WORKERS=str(in_flight),
        EXTRACT__MAX_PARALLEL_ITEMS=str(2 * in_flight),
        # A file that is full is one that another of the normalizing processes can resume.
        SOURCES__DATA_WRITER__FILE_MAX_ITEMS="25000",
        NORMALIZE__WORKERS=cores,
        LOAD__WORKERS=cores,
        DLT_DATA_DIR=str(folder / "dlt"),
    )
    # Made absolute without being resolved: an environment's python is a link, and is known by where it lies.
    return Job((str(python.absolute()), "-m", "benchmarks.dlt_sync", url, str(folder), disposition), env, folder)


def report(ended: Ended) -> dict[str, object]:
    """Return what a process reported; raises RuntimeError when it failed."""
    if ended.code:
        message = f"a contender ended with {ended.code}: {ended.errors[-2000:]}{ended.output[-500:]}"
        raise RuntimeError(message)
    text = json.loads(ended.output[ended.output.index("{") :])
    if not isinstance(text, dict):
        message = f"no report: {ended.output[-500:]}"
        raise TypeError(message)
    return text


def carry_out(job: Job, server: Beside | None = None, *, items: int | None = None) -> Sample:
    """Run a job to its end and measure it, and what it cost the server; `items` is what it must have fetched."""
    before = server.spent() if server else None
    ended = run(job.command, job.env, job.folder)
    text = report(ended)
    if items is not None and (found := text.get("items", items)) != items:
        message = f"{found} items where there are {items}: {' '.join(job.command)}"
        raise RuntimeError(message)
    if server is None or before is None:
        return Sample(ended.wall, ended.cpu, ended.peak_mb)
    cost = server.spent() - before
    return Sample(ended.wall, ended.cpu, ended.peak_mb, cost.requests, cost.cpu_seconds, cost.refused, cost.too_early)
