"""How much memory and how many cores DuckDB may use."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import duckdb
from duckdb import DuckDBPyConnection
from sqlalchemy.exc import DBAPIError

from connectors.warehouse.storage.errors import first_line

T = TypeVar("T")

_log = logging.getLogger(__name__)

# What is enough for a run, and for two cores at whole tables: what is more, DuckDB spills. But every core has rows of
# its own in hand.
_MEMORY_MB = 256
_A_CORES_MB = 128
_MOST_MB = 512

_MIB = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0, "TiB": 1024.0**2}

SETTINGS = {
    "memory_limit": f"{_MEMORY_MB}MB",
    # What a run does is small, and done by two threads of ours already: with DuckDB's own beside them a third of the
    # CPU went into handing tasks about. What is large asks for all of them (`on_all_cores`).
    "threads": "1",
}


def _setting(db: DuckDBPyConnection, name: str) -> str:
    return str(db.execute(f"SELECT current_setting('{name}')").fetchall()[0][0])


def _set(db: DuckDBPyConnection, name: str, setting: str) -> None:
    # On another connection, because this one may be in a failed transaction. The settings are the database's.
    with db.duplicate() as other:
        other.execute(f"SET {name} = '{setting}'" if setting else f"RESET {name}")


def _limit_mib(db: DuckDBPyConnection) -> float:
    number, unit = _setting(db, "memory_limit").split()
    return float(number) * _MIB[unit]


@contextmanager
def on_all_cores(db: DuckDBPyConnection) -> Iterator[None]:
    """Let DuckDB use every core in this block: for work on whole tables, while nothing else is done.

    Afterwards it has given the machine back what memory it no longer uses.
    """
    # A run that had too little has more already.
    is_usual = _limit_mib(db) <= _MEMORY_MB
    try:
        _set(db, "threads", "")
        if is_usual:
            mb = min(_MOST_MB, max(_MEMORY_MB, _A_CORES_MB * int(_setting(db, "threads"))))
            _set(db, "memory_limit", f"{mb}MB")
        yield
    finally:
        _set(db, "threads", "1")
        if is_usual:
            # What cannot be spilled just now may stay in memory.
            with suppress(duckdb.OutOfMemoryException):
                _set(db, "memory_limit", f"{_MEMORY_MB}MB")


def in_enough_memory(db: DuckDBPyConnection, work: Callable[[], T]) -> T:
    """Do work in the memory that a run has; when that is too little, once more in as much as DuckDB takes by itself.

    From then on the run has so much.
    """
    try:
        return work()
    except (duckdb.OutOfMemoryException, DBAPIError) as error:
        message = error.orig if isinstance(error, DBAPIError) else error
        if not isinstance(message, duckdb.OutOfMemoryException):
            raise
        _log.info("Retrying with more memory: %s", first_line(message))
    _set(db, "memory_limit", "")
    # DuckDB 1.5 resets what it says, and not what it does.
    _set(db, "memory_limit", _setting(db, "memory_limit"))
    return work()


def release_memory(db: DuckDBPyConnection) -> None:
    """Give the machine what memory DuckDB no longer uses: it does so when a thread of its own ends, and it has none."""
    db.execute("SET threads = 2")
    db.execute("SET threads = 1")
