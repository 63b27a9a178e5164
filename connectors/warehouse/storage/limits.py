"""How much memory and how many cores DuckDB may use."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.errors import first_line

T = TypeVar("T")

_log = logging.getLogger(__name__)

# Memory in MB: for a run (DuckDB spills the rest); for each core during work on whole tables, because every core has
# its own buffers; and the maximum for such work.
_MEMORY_MB = 256
_A_CORES_MB = 128
_MOST_MB = 512

# A checkpoint holds two blocks of 256 kB for each column with new rows, however few. Without enough memory it fails.
_CHECKPOINT_MB = "SELECT 128 + coalesce(sum(column_count), 0) // 2 FROM duckdb_tables()"

_MIB = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0, "TiB": 1024.0**2}

SETTINGS = {
    "memory_limit": f"{_MEMORY_MB}MB",
    # A run's statements are small, and the writer already uses two threads: with DuckDB's threads in addition, a third
    # of the CPU time was spent on scheduling. Large operations use all cores (`on_all_cores`).
    "threads": "1",
}


def _setting(db: DuckDBPyConnection, name: str) -> str:
    return str(db.execute(f"SELECT current_setting('{name}')").fetchall()[0][0])


def _set(db: DuckDBPyConnection, name: str, setting: str) -> None:
    # On another connection, because this one may be in a failed transaction. The settings apply to the whole database.
    with db.duplicate() as other:
        other.execute(f"SET {name} = '{setting}'" if setting else f"RESET {name}")


def _limit_mib(db: DuckDBPyConnection) -> float:
    number, unit = _setting(db, "memory_limit").split()
    return float(number) * _MIB[unit]


def _checkpoint_mb(db: DuckDBPyConnection) -> int:
    return int(db.execute(_CHECKPOINT_MB).fetchall()[0][0])


def allow_checkpoint(db: DuckDBPyConnection) -> None:
    """Raise the memory limit to what a checkpoint needs, before the connection is closed."""
    with suppress(duckdb.Error):
        if (mb := _checkpoint_mb(db)) > _limit_mib(db):
            _set(db, "memory_limit", f"{mb}MB")


@contextmanager
def on_all_cores(db: DuckDBPyConnection) -> Iterator[None]:
    """Let DuckDB use all cores in this block, for work on whole tables while nothing else runs.

    Afterwards DuckDB returns unused memory to the operating system.
    """
    # After `in_enough_memory` raised the limit, it is not changed.
    is_usual = _limit_mib(db) <= _MEMORY_MB
    try:
        _set(db, "threads", "")
        if is_usual:
            mb = min(_MOST_MB, max(_MEMORY_MB, _A_CORES_MB * int(_setting(db, "threads"))))
            _set(db, "memory_limit", f"{max(mb, _checkpoint_mb(db))}MB")
        yield
    finally:
        _set(db, "threads", "1")
        if is_usual:
            # DuckDB cannot always spill immediately; the higher limit then stays.
            with suppress(duckdb.OutOfMemoryException):
                _set(db, "memory_limit", f"{_MEMORY_MB}MB")


def in_enough_memory(db: DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Call `work`; if DuckDB runs out of memory, raise the limit to DuckDB's default and call it once more.

    The higher limit stays for the rest of the run.
    """
    try:
        return work()
    except duckdb.OutOfMemoryException as error:
        _log.info("Retrying with more memory: %s", first_line(error))
    _set(db, "memory_limit", "")
    # DuckDB 1.5: RESET changes the reported limit, but not the effective one.
    _set(db, "memory_limit", _setting(db, "memory_limit"))
    return work()


def release_memory(db: DuckDBPyConnection) -> None:
    """Return unused memory to the operating system. DuckDB does so when one of its threads ends, so start one."""
    db.execute("SET threads = 2")
    db.execute("SET threads = 1")
