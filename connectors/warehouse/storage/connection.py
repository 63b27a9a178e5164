"""The writer's connection to the warehouse file, and transactions on it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.files import explain, private_files, real
from connectors.warehouse.storage.schema import prepare_tables

# Every DuckDB since 1.2 can read this storage version, the first with zstd compression.
STORAGE = "v1.2.0"

Database: TypeAlias = DuckDBPyConnection
"""A connection to the warehouse's file, with its own transactions."""

_SETTINGS = {
    "TimeZone": "UTC",
    # Without a temporary folder of its own, DuckDB would spill nothing: the rest of larger work goes next to the file.
    "memory_limit": "512MB",
    # A merge runs on a thread beside the one that receives pages. More threads cost a third more CPU time.
    "threads": "1",
    # The default of 16 MB blocks a commit for almost a second, about every 25,000 rows. Publishing checkpoints.
    "wal_autocheckpoint": "1GB",
    # A checkpoint does not combine row groups with deleted rows. A large sync would do that again and again, in 200 MB
    # of memory, and after a few changes everywhere in a large file, DuckDB would rewrite the whole file.
    "max_vacuum_tasks": "0",
    "preserve_insertion_order": "false",
    # DuckDB would print it to standard output, in the middle of JSON output.
    "enable_progress_bar": "false",
    # The most rows of a join whose partners DuckDB looks up individually. With 50, it reads all rows between them.
    "dynamic_or_filter_threshold": "1000",
}


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise the errors of DuckDB and of the system in the block as errors about the file at `path`."""
    try:
        yield
    except duckdb.ProgrammingError:
        # A bug, not a problem of the file.
        raise
    except (duckdb.Error, OSError, MemoryError) as error:
        raise explain(path, error) from error


@contextmanager
def open_warehouse(path: Path) -> Iterator[DuckDBPyConnection]:
    """Open the warehouse file for writing; create a new one with all tables. The caller holds the lock.

    Until it is closed, the files that this process creates are readable by their owner only: DuckDB creates its log
    with the process's default mode.

    Raises WarehouseBusy if another program holds the file, and WarehouseUnusable if DuckDB cannot use it, or if another
    version of gramhouse wrote it.
    """
    with explained(path), private_files():
        # DuckDB names the log of a new file after a symbolic link to it, and that of an existing file after the file.
        file = real(path)
        with closing(duckdb.connect(str(file), config={"storage_compatibility_version": STORAGE})) as db:
            file.chmod(0o600)
            for name, setting in _SETTINGS.items():
                db.execute(f"SET {name} = '{setting}'")
            with transaction(db):
                prepare_tables(db, path)
            yield db


@contextmanager
def transaction(db: DuckDBPyConnection) -> Iterator[None]:
    """Run the block in a transaction: commit it at the end, or roll it back if the block raises."""
    db.begin()
    try:
        yield
        db.commit()
    except BaseException:
        # After some errors DuckDB has rolled back already. The first error is the one that matters.
        with suppress(duckdb.Error):
            db.rollback()
        raise


def flush_log(db: DuckDBPyConnection) -> None:
    """Write DuckDB's log to the file at the end of a run, outside of a transaction. Raises duckdb.Error.

    Rows are combined if a fifth of those in the file are deleted.
    """
    [(has_gaps,)] = db.execute("SELECT max(rowid) + 1 > 1.25 * count(*) FROM core.media").fetchall()
    if has_gaps:
        db.execute("RESET max_vacuum_tasks")
    db.execute("CHECKPOINT")


def release_memory(db: DuckDBPyConnection) -> None:
    """Return unused memory to the system, outside of a transaction. Raises duckdb.Error.

    DuckDB does so when one of its threads ends, so one is started.
    """
    for threads in ("2", _SETTINGS["threads"]):
        db.execute(f"SET threads = {threads}")
