"""Measures this process and the files of a warehouse between two runs, and detects growth in the samples."""

import asyncio
import ctypes
import gc
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median

import duckdb

_PAGE = os.sysconf("SC_PAGE_SIZE")
_KB = 1024
_ALLOCATOR = "jemalloc_bg_thd"

# How many may appear late: native libraries start some threads only when two of their tasks overlap.
_COUNTED = {"descriptors": 0, "threads": 1, "tasks": 0}


@dataclass(frozen=True)
class Sample:
    """A measurement after a number of runs: sizes in KB, `names` of all files, and the `rows` of all tables."""

    run: int
    resident: float
    descriptors: int
    threads: int
    tasks: int
    warehouse: float
    log: float
    snapshot: float
    names: frozenset[str]
    rows: int


def measured(run: int, warehouse: Path, snapshot: Path) -> Sample:
    """Measure this process, after it has released unused memory, and the folder of a warehouse and its snapshot."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE / _KB
    # DuckDB's threads are not Python threads; its allocator may start one for each core at any time.
    names = [path.read_text(encoding="ascii").strip() for path in Path("/proc/self/task").glob("*/comm")]
    # A part of the raw store that the warehouse does not list would be an error at the next opening.
    found = (path for path in warehouse.parent.rglob("*") if path.suffix != ".parquet")
    files = (warehouse, warehouse.with_name(warehouse.name + ".wal"), snapshot)
    kept, log, shown = (path.stat().st_size / _KB if path.exists() else 0.0 for path in files)
    return Sample(
        run,
        resident,
        # One descriptor is that of the listing itself.
        len(list(Path("/proc/self/fd").iterdir())),
        sum(name != _ALLOCATOR for name in names),
        len(asyncio.all_tasks()),
        kept,
        log,
        shown,
        frozenset(str(path.relative_to(warehouse.parent)) for path in found),
        _rows(snapshot) if snapshot.exists() else 0,
    )


def _rows(snapshot: Path) -> int:
    with duckdb.connect(str(snapshot), read_only=True, config={"threads": "1"}) as db:
        ((found,),) = db.execute("SELECT sum(estimated_size) FROM duckdb_tables()").fetchall()
    return int(found)


@dataclass(frozen=True)
class Limits:
    """Limits of growth: resident memory in KB per run and per added row, files in KB per added row.

    A run over more rows needs more memory: a new process that syncs the warehouse of 1,000 runs (29,000 rows) holds
    5 MB more than one that begins a new warehouse. Without new data, it grows by 1.3 KB per run.

    The first `warm_up` runs are not looked at. DuckDB writes blocks of 256 KB, and leaves some of them free for the
    next run: `slack` is how many KB of them a file may have.
    """

    warm_up: int = 50
    resident: float = 4.0
    resident_per_row: float = 0.5
    per_row: float = 1.0
    slack: float = 2048.0


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the median of the slopes between all pairs of points (Theil-Sen estimator), which is robust to outliers.

    Raises StatisticsError where there are fewer than two points.
    """
    return median((b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if b[0] != a[0])


def warm(samples: Sequence[Sample], limits: Limits) -> Sequence[Sample]:
    """Return the samples after the warm-up."""
    return [sample for sample in samples if sample.run > limits.warm_up]


def complaints(samples: Sequence[Sample], limits: Limits) -> Iterator[str]:
    """Return a line for each value that grew beyond its limit; raises StatisticsError without two warm samples."""
    samples = warm(samples, limits)
    per_run = slope([(one.run, one.resident) for one in samples])
    rows_per_run = slope([(one.run, one.rows) for one in samples])
    allowed = limits.resident + limits.resident_per_row * max(0.0, rows_per_run)
    if per_run > allowed:
        yield f"resident memory grows by {per_run:,.1f} KB per run, and may by {allowed:,.1f}"
    for name, late in _COUNTED.items():
        counts = [int(getattr(one, name)) for one in samples]
        if max(counts) > counts[0] + late:
            yield f"{name} grew from {counts[0]} to {max(counts)}"
    first, last = samples[0], samples[-1]
    if left := last.names - first.names:
        yield f"files were left over: {', '.join(sorted(left))}"
    if any(one.log for one in samples):
        yield "a log was left beside the warehouse"
    explained = max(0, last.rows - first.rows) * limits.per_row + limits.slack
    for name in ("warehouse", "snapshot"):
        grown = getattr(last, name) - getattr(first, name)
        if grown > explained:
            yield f"the {name} grew by {grown:,.0f} KB, and {explained:,.0f} KB are explained by its rows"
