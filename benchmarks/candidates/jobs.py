"""The candidates: the fetch alone, gramhouse and dlt, each a process with its command and environment."""

import json
import os
import sys
from collections.abc import Container, Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from benchmarks.api.server_process import ROOT, ServerProcess
from benchmarks.measuring.process import ProcessResult, run
from benchmarks.measuring.samples import Sample

# The user's own settings must not affect the measurement.
_REMOVED_PREFIXES = ("GRAMHOUSE_", "PREFECT_", "PYTHON")


@dataclass(frozen=True, slots=True)
class Job:
    """A process to measure; it prints its report as a JSON object at the end of its output."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    folder: Path


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder with the files of one gramhouse warehouse."""

    path: Path

    @property
    def warehouse(self) -> Path:
        """The writer's file."""
        return self.path / "warehouse.duckdb"

    @property
    def raw(self) -> Path:
        """The raw store."""
        return self.path / "raw"

    @property
    def snapshot(self) -> Path:
        """The analysts' file."""
        return self.path / "analytics.duckdb"


def clean_environment(**settings: str) -> dict[str, str]:
    """Return this process's environment without the user's settings, plus `settings`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_REMOVED_PREFIXES)}
    return {**inherited, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **settings}


def gramhouse(url: str, run_folder: RunFolder, in_flight: int, *arguments: str, module: str = "flows.cli") -> Job:
    """Run a gramhouse command; without arguments, a sync of the posts."""
    run_folder.path.mkdir(parents=True, exist_ok=True)
    # --rebind: every server has another port, so its URL differs from the one that filled a saved warehouse.
    command = arguments or ("sync", "--surface", "posts", "--rebind")
    env = clean_environment(
        GRAMHOUSE_BASE_URL=url,
        GRAMHOUSE_API_KEY="bench-key",
        GRAMHOUSE_WAREHOUSE=str(run_folder.warehouse),
        GRAMHOUSE_SNAPSHOT=str(run_folder.snapshot),
        GRAMHOUSE_CONCURRENCY=str(in_flight),
        PREFECT_API_URL="",
    )
    return Job((sys.executable, "-m", module, *command, "--json"), env, run_folder.path)


def dlt(url: str, folder: Path, in_flight: int, python: Path, disposition: str = "append") -> Job:
    """Load the same data into DuckDB with dlt, tuned as its documentation recommends; see `dlt_sync`."""
    folder.mkdir(parents=True, exist_ok=True)
    cores = str(os.cpu_count() or 1)
    env = clean_environment(
        RUNTIME__DLTHUB_TELEMETRY="false",
        RUNTIME__LOG_LEVEL="ERROR",
        EXTRACT__WORKERS=str(in_flight),
        EXTRACT__MAX_PARALLEL_ITEMS=str(2 * in_flight),
        # Normalizing is parallel by file: with smaller files, all workers have one.
        SOURCES__DATA_WRITER__FILE_MAX_ITEMS="25000",
        NORMALIZE__WORKERS=cores,
        LOAD__WORKERS=cores,
        DLT_DATA_DIR=str(folder / "dlt"),
    )
    # Absolute but not resolved: python is a symlink, and its own location selects the virtual environment.
    command = (str(python.absolute()), "-m", "benchmarks.candidates.dlt_sync", url, str(folder), disposition)
    return Job(command, env, folder)


def parse_report(result: ProcessResult) -> dict[str, object]:
    """Return the JSON report of a process; raise RuntimeError if the process failed."""
    if result.exit_code:
        raise RuntimeError(f"a candidate exited with {result.exit_code}: {result.stderr[-2000:]}{result.stdout[-500:]}")
    report: dict[str, object] = json.loads(result.stdout[result.stdout.index("{") :])
    return report


def measure_process(job: Job, exit_codes: Container[int] = (0,)) -> Sample:
    """Run a job that prints no report, and measure it; raise RuntimeError if it exits with another code."""
    result = run(job.command, job.env, job.folder)
    if result.exit_code not in exit_codes:
        raise RuntimeError(f"{' '.join(job.command)} exited with {result.exit_code}: {result.stderr[-2000:]}")
    return Sample(result.wall, result.cpu, result.peak_mb)


def measure_job(job: Job, server: ServerProcess | None = None, *, items: int | None = None) -> Sample:
    """Run a job and measure it and the server; raise RuntimeError if it did not fetch `items` items."""
    before = server.usage() if server else None
    result = run(job.command, job.env, job.folder)
    report = parse_report(result)
    if items is not None and (fetched := report.get("items", items)) != items:
        raise RuntimeError(f"fetched {fetched} items instead of {items}: {' '.join(job.command)}")
    if server is None or before is None:
        return Sample(result.wall, result.cpu, result.peak_mb)
    cost = server.usage() - before
    return Sample(result.wall, result.cpu, result.peak_mb, *astuple(cost))


def measure_floor(server: ServerProcess, folder: Path, in_flight: int) -> Sample:
    """Fetch all pages of a server, and discard them."""
    command = (sys.executable, "-m", "benchmarks.candidates.floor", server.url, "--concurrency", str(in_flight))
    return measure_job(Job(command, clean_environment(), folder), server)


def measure_script(server: ServerProcess, folder: Path, in_flight: int) -> Sample:
    """Fetch all pages of a server, and append a few columns to a table of a new DuckDB file."""
    file = folder / "script.duckdb"
    file.unlink(missing_ok=True)
    command = (sys.executable, "-m", "benchmarks.candidates.script", server.url, str(file), str(in_flight))
    return measure_job(Job(command, clean_environment(), folder), server)


def measure_sync(
    server: ServerProcess,
    folder: Path,
    in_flight: int,
    *,
    items: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> Sample:
    """Sync the posts of a server into the warehouse in a folder; `settings` are further environment variables."""
    job = gramhouse(server.url, RunFolder(folder), in_flight)
    job = replace(job, env={**job.env, **(settings or {})})
    return measure_job(job, server, items=items)
