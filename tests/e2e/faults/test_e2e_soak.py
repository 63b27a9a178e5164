"""Hundreds of runs in one process: memory, threads, descriptors and files must not grow faster than the rows."""

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import duckdb
import httpx
import pytest

from flows.cli.__main__ import prepare_process
from tests.api.server import Api
from tests.operator import EIGHT_ACCOUNTS, KEY

pytestmark = [pytest.mark.e2e, pytest.mark.long]

RUNS = int(os.environ.get("SOAK_RUNS", "1000"))
# KB: a run over more rows needs more memory. Without new data, it grows by 1.3 KB per run.
PER_RUN, PER_ROW = 4.0, 0.5
# KB of free blocks that DuckDB may leave in a file for the next run, and what a row may take in it.
SLACK, FILE_PER_ROW = 2048.0, 1.0


@dataclass(frozen=True)
class Sample:
    """A measurement: sizes in KB, and the number of rows of the snapshot. `threads` are without the allocator's."""

    resident: float
    descriptors: int
    threads: int
    sizes: dict[str, float]
    rows: int


def measure(folder: Path) -> Sample:
    """Measure this process, after it has released unused memory, and the files."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    names = [path.read_text(encoding="ascii") for path in Path("/proc/self/task").glob("*/comm")]
    with duckdb.connect(str(folder / "analytics.duckdb"), read_only=True, config={"threads": "1"}) as db:
        ((rows,),) = db.execute("SELECT sum(estimated_size) FROM duckdb_tables()").fetchall()
    return Sample(
        pages * os.sysconf("SC_PAGE_SIZE") / 1024,
        len(list(Path("/proc/self/fd").iterdir())),
        sum(not name.startswith("jemalloc") for name in names),
        {each.name: each.stat().st_size / 1024 for each in folder.iterdir() if each.is_file()},
        int(rows),
    )


def soak(folder: Path, url: str) -> list[Sample]:
    """Sync again and again; return 40 samples."""
    # As in a process of gramhouse: other allocators keep memory that this one returns.
    prepare_process()
    from flows.config.options import SyncOptions  # noqa: PLC0415
    from flows.config.settings import load  # noqa: PLC0415
    from flows.engine.resources import open_resources  # noqa: PLC0415
    from flows.engine.run_request import RunRequest  # noqa: PLC0415
    from flows.pipeline import run_sync  # noqa: PLC0415

    files = {"warehouse": folder / "warehouse.duckdb", "snapshot": folder / "analytics.duckdb"}
    settings = load(base_url=url, api_key=KEY, **files)
    # An account that leaves is more than a tenth of so few, and the runs follow each other in seconds.
    request = RunRequest(settings, SyncOptions(accept_removals=True))

    async def sync_once() -> str:
        async with open_resources(settings, "a soak") as resources:
            return str((await run_sync(request, resources)).state)

    samples = []
    for run in range(RUNS):
        # Every second run finds changes.
        httpx.post(f"{url}/_sandbox/day", json={"day": run // 2}).raise_for_status()
        assert asyncio.run(sync_once()) == "complete"
        if run % (RUNS // 40) == 0:
            samples.append(measure(folder))
    return samples


def slope(values: Sequence[float]) -> float:
    """Return the median of the slopes between all pairs (Theil-Sen), per run, which outliers do not change."""
    slopes = [(right - left) / (n - m) for (m, left), (n, right) in combinations(enumerate(values), 2)]
    return median(slopes) / (RUNS // 40)


def growth(samples: list[Sample]) -> Iterator[str]:
    """Yield what grew that should not."""
    first, last = samples[0], samples[-1]
    per_run = slope([one.resident for one in samples])
    if per_run > PER_RUN + PER_ROW * max(0.0, slope([one.rows for one in samples])):
        yield f"memory by {per_run:.1f} KB a run"
    # Native libraries start some threads only when two of their tasks overlap.
    for name, more in (("descriptors", 0), ("threads", 1)):
        if getattr(last, name) > getattr(first, name) + more:
            yield f"{name} from {getattr(first, name)} to {getattr(last, name)}"
    for name, size in last.sizes.items():
        grown = size - first.sizes.get(name, -1e9)
        if grown > SLACK + FILE_PER_ROW * max(0, last.rows - first.rows):
            yield f"{name} by {grown:,.0f} KB"


def test_hundreds_of_runs_leave_nothing_behind(tmp_path: Path, serve: Callable[..., Api]) -> None:
    # This process serves the API: only the memory of the runs is measured.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        samples = pool.submit(soak, tmp_path, serve(**EIGHT_ACCOUNTS).url).result()
    # The first quarter is the warm-up.
    assert list(growth(samples[len(samples) // 4 :])) == []
