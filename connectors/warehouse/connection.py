"""The writer's one connection to the warehouse file."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import duckdb
from duckdb import DuckDBPyConnection
from sqlalchemy import Connection, create_engine, make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from connectors.warehouse.errors import WarehouseBusy, WarehouseError, WarehouseUnusable
from connectors.warehouse.holder import hold
from models.tables import WAREHOUSE

# The default of 16 MB stalls a commit for most of a second, every 25,000 rows or so; a run checkpoints at its end.
_SETTINGS = {
    "TimeZone": "UTC",
    "memory_limit": "1GB",
    # DuckDB would draw it on standard output, into the midst of a report for programs.
    "enable_progress_bar": "false",
    "wal_autocheckpoint": "1GB",
    "preserve_insertion_order": "false",
}

_SCHEMAS = {str(table.schema) for table in WAREHOUSE.sorted_tables}

_CONFLICT = re.compile(r"Conflicting lock is held in (?P<program>.*?) \(PID (?P<pid>\d+)\)")


def explain(path: Path, error: Exception) -> WarehouseError:
    """Turn what DuckDB says of a file it cannot use into one line that names the mend."""
    text = str(error)
    if found := _CONFLICT.search(text):
        program = Path(found["program"]).name
        message = f"{path} is held by {program} (process {found['pid']}). Close it there, or read the snapshot instead."
        return WarehouseBusy(message)
    if "Could not set lock" in text:
        return WarehouseBusy(f"{path} is held by another process. Close it there, or read the snapshot instead.")
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    first = re.sub(r"^\(\S+\) ", "", first)
    return WarehouseUnusable(f"{path} cannot be used: {first}")


@contextmanager
def connect(path: Path) -> Iterator[Connection]:
    """Open the warehouse file for writing, made with all its tables if it is new.

    Raises WarehouseBusy when another program holds the file, WarehouseUnusable when DuckDB cannot use it.
    """
    if (name := path.name.split(".")[0].lower()) in _SCHEMAS:
        message = f"{path} cannot be used: DuckDB would take its name for the schema {name}. Call the file otherwise."
        raise WarehouseUnusable(message)
    url = make_url("duckdb://").set(database=str(path))
    engine = create_engine(url, poolclass=StaticPool)
    try:
        try:
            connection = engine.connect()
            for name, value in _SETTINGS.items():
                connection.exec_driver_sql(f"SET {name} = '{value}'")
            connection.commit()
            _create(connection)
        except (duckdb.Error, DBAPIError) as error:
            raise explain(path, error) from error
        with connection:
            yield connection
    finally:
        engine.dispose()


def duck(connection: Connection) -> DuckDBPyConnection:
    """Return DuckDB's own connection, for what is no transaction of SQLAlchemy's: CHECKPOINT, ATTACH."""
    return cast("DuckDBPyConnection", connection.connection.driver_connection)


def _create(connection: Connection) -> None:
    with connection.begin():
        present = {
            row[0] for row in connection.exec_driver_sql("SELECT schema_name || '.' || table_name FROM duckdb_tables()")
        }
        missing = [table for table in WAREHOUSE.sorted_tables if table.fullname not in present]
        if not missing:
            return
        for schema in sorted({str(table.schema) for table in missing}):
            connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        for table in missing:
            table.create(connection, checkfirst=False)


@contextmanager
def writer(path: Path, activity: str, *, since: str, pause: Callable[[float], None]) -> Iterator[Connection]:
    """Hold the warehouse against every other gramhouse, then open it for writing."""
    with hold(path, activity, since=since, pause=pause), connect(path) as connection:
        yield connection


def check(path: Path, *, since: str, pause: Callable[[float], None]) -> None:
    """See whether the warehouse file can be opened, and change nothing in it.

    Raises WarehouseBusy and WarehouseUnusable.
    """
    with hold(path, "gramhouse doctor", since=since, pause=pause):
        try:
            duckdb.connect(str(path), read_only=True).close()
        except duckdb.Error as error:
            raise explain(path, error) from error
