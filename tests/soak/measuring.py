"""Measures a process and a folder without changing them."""

import asyncio
import ctypes
import gc
import os
from pathlib import Path

import duckdb

from tests.soak.samples import Files, Vitals

_PAGE = os.sysconf("SC_PAGE_SIZE")
_KB = 1024
_ALLOCATOR = "jemalloc_bg_thd"


def vitals() -> Vitals:
    """Measure this process after it has released unused memory."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    try:
        tasks = len(asyncio.all_tasks())
    except RuntimeError:
        tasks = 0
    # One descriptor is that of the listing itself.
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    # DuckDB's threads are not Python threads; its allocator may start one for each core at any time.
    names = [path.read_text(encoding="ascii").strip() for path in Path("/proc/self/task").glob("*/comm")]
    threads = sum(name != _ALLOCATOR for name in names)
    return Vitals(resident / _KB, descriptors, threads, tasks)


def files(warehouse: Path, snapshot: Path) -> Files:
    """Measure the folder of a warehouse and its snapshot."""
    log = warehouse.with_name(warehouse.name + ".wal")
    kept, unwritten, shown = (
        path.stat().st_size / _KB if path.exists() else 0.0 for path in (warehouse, log, snapshot)
    )
    # A part of the raw store that the warehouse does not list would be an error at the next opening.
    found = (path for path in warehouse.parent.rglob("*") if path.suffix != ".parquet")
    names = frozenset(str(path.relative_to(warehouse.parent)) for path in found)
    return Files(kept, unwritten, shown, names)


def rows(snapshot: Path) -> int:
    """Count the rows of all tables of the snapshot."""
    with duckdb.connect(str(snapshot), read_only=True, config={"threads": "1"}) as db:
        ((found,),) = db.execute("SELECT sum(estimated_size) FROM duckdb_tables()").fetchall()
    return int(found)
