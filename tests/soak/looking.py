"""Looking at a process and at a folder, without changing either."""

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
    """Look at this process, once it has given back what it does not need."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    try:
        tasks = len(asyncio.all_tasks())
    except RuntimeError:
        tasks = 0
    # The descriptor by which its folder is read is always there.
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    # DuckDB's threads are none of Python's. Its allocator starts one for each core, at any time.
    names = [path.read_text(encoding="ascii").strip() for path in Path("/proc/self/task").glob("*/comm")]
    threads = sum(name != _ALLOCATOR for name in names)
    return Vitals(resident / _KB, descriptors, threads, tasks)


def files(warehouse: Path, snapshot: Path) -> Files:
    """Look at the folder that a warehouse and its snapshot share."""
    log = warehouse.with_name(warehouse.name + ".wal")
    kept, unwritten, shown = (
        path.stat().st_size / _KB if path.exists() else 0.0 for path in (warehouse, log, snapshot)
    )
    # A part of the raw store that the warehouse does not name would have been refused at the next opening.
    found = (path for path in warehouse.parent.rglob("*") if path.suffix != ".parquet")
    names = frozenset(str(path.relative_to(warehouse.parent)) for path in found)
    return Files(kept, unwritten, shown, names)


def rows(snapshot: Path) -> int:
    """Count the rows of all the snapshot's tables."""
    with duckdb.connect(str(snapshot), read_only=True, config={"threads": "1"}) as db:
        ((found,),) = db.execute("SELECT sum(estimated_size) FROM duckdb_tables()").fetchall()
    return int(found)
