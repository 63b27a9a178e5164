"""The writer's single connection to the warehouse file."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import duckdb
from duckdb import DuckDBPyConnection
from sqlalchemy import Connection, create_engine, make_url
from sqlalchemy.dialects import registry
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import QueuePool
from sqlalchemy.schema import CreateColumn, CreateTable, ExecutableDDLElement, SetColumnComment, SetTableComment
from sqlalchemy.sql.compiler import DDLCompiler

from connectors.warehouse.storage import limits
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseError, WarehouseUnusable, first_line
from connectors.warehouse.storage.holder import hold
from connectors.warehouse.storage.migrations import revisions
from connectors.warehouse.storage.paths import database
from connectors.warehouse.storage.quoting import literal
from models.tables import WAREHOUSE
from models.tables.columns import packing

# The default of 16 MB stalls a commit for most of a second, every 25,000 rows or so; a run checkpoints at its end.
_SETTINGS = {
    "TimeZone": "UTC",
    # DuckDB would draw it on standard output, into the midst of a report for programs.
    "enable_progress_bar": "false",
    "wal_autocheckpoint": "1GB",
    "preserve_insertion_order": "false",
    # Rows that are looked for by their place are found there, up to so many: with 50, which is DuckDB's own bound, it
    # unpacked every payload between the first and the last of them.
    "dynamic_or_filter_threshold": "10000",
    **limits.SETTINGS,
}

# The oldest form of a file that knows zstd: every DuckDB since 1.2 reads it.
_STORAGE = "v1.2.0"

_OTHERS = "gramhouse_others"
_FILES = "gramhouse_files"
_READING = "gramhouse_reading"
_RAW = "gramhouse_raw"

# Named here, the dialect is not looked for among all that is installed.
registry.register("duckdb", "duckdb_sqlalchemy", "Dialect")

# explain() reports what is wrong with the file; the pool would print a traceback of its own clean-up besides.
logging.getLogger("sqlalchemy.pool").addHandler(logging.NullHandler())

_SNAPSHOTS_OWN = "main.published"

_CONFLICT = re.compile(r"Conflicting lock is held in (?P<program>.*?) \(PID (?P<pid>\d+)\)")


_HINTS = {
    "No space left on device": " The disk is full: free space and retry; landed pages are kept.",
    "Disk quota exceeded": " The quota is used up: free space and retry; landed pages are kept.",
}


def explain(path: Path, error: Exception) -> WarehouseError:
    """Convert DuckDB's error about a file that it cannot use into one line that names the fix."""
    text = str(error)
    if found := _CONFLICT.search(text):
        program = Path(found["program"]).name
        message = (
            f"{path} is held by {program} (process {found['pid']}). Fix: close that program, or read the"
            " snapshot instead."
        )
        return WarehouseBusy(message)
    if "Could not set lock" in text:
        return WarehouseBusy(
            f"{path} is held by another process. Fix: close that program, or read the snapshot instead."
        )
    hint = next((hint for sign, hint in _HINTS.items() if sign in text), "")
    return WarehouseUnusable(f"{path} cannot be used: {first_line(error)}.{hint}")


@contextmanager
def connect(
    path: Path, raw: Path | None = None, *, new_id: Callable[[], str] = lambda: uuid4().hex
) -> Iterator[Connection]:
    """Open the warehouse file for writing, made with all its tables if it is new, upgraded if it is older.

    `raw` is the folder of raw stores; by default `raw` beside the file. `new_id` makes the id of a new warehouse.

    Raises WarehouseBusy when another program holds the file, WarehouseUnusable when DuckDB cannot use it, it is
    none of ours or a newer gramhouse's, or cannot be upgraded; it stays as it was.
    """
    try:
        # The settings refuse this one; code may ask for it.
        if str(path) != ":memory:":
            database(path)
    except ValueError as error:
        message = f"{path} cannot be used: {error}."
        raise WarehouseUnusable(message) from None
    url = make_url("duckdb://").set(database=str(path))
    engine = create_engine(
        url, poolclass=QueuePool, connect_args={"config": {"storage_compatibility_version": _STORAGE}}
    )
    # Closed after DuckDB's own: closing any handle of a file releases all locks that the process has on it.
    with ExitStack() as files:
        try:
            with ExitStack() as stack:
                try:
                    connection = stack.enter_context(engine.connect())
                    _set(connection)
                    connection.info[_RAW] = path.resolve().parent / "raw" if raw is None else raw
                    _ready(connection, path, new_id)
                except (duckdb.Error, DBAPIError) as error:
                    raise explain(path, error) from error
                connection.info[_OTHERS], connection.info[_FILES] = stack, files
                yield connection
        finally:
            engine.dispose()


def _set(connection: Connection) -> None:
    db = raw_connection(connection)
    for name, setting in _SETTINGS.items():
        db.execute(f"SET {name} = '{setting}'")


def open_sibling(connection: Connection) -> Connection:
    """Open another connection to the same file, with transactions of its own; it is closed with the first."""
    others: ExitStack = connection.info[_OTHERS]
    other = others.enter_context(connection.engine.connect())
    _set(other)
    other.info[_RAW] = connection.info[_RAW]
    return other


def raw_folder(connection: Connection) -> Path:
    """Return the folder in which each warehouse has its raw store, by its id."""
    return Path(connection.info[_RAW])


def warehouse_id(connection: Connection) -> str:
    """Return the warehouse's id, within a transaction."""
    return str(value(raw_connection(connection), "SELECT warehouse_id FROM ops.warehouse"))


def database_file(connection: Connection) -> Path:
    """Return the path of the warehouse file."""
    return Path(str(connection.engine.url.database))


def reading(connection: Connection) -> int:
    """Return a handle that reads the warehouse file, the same at each call; it stays open as long as DuckDB's own."""
    info = connection.info
    if _READING not in info:
        files: ExitStack = info[_FILES]
        info[_READING] = files.enter_context(database_file(connection).open("rb"))
    return int(info[_READING].fileno())


def attach_draft(db: DuckDBPyConnection, draft: Path, name: str) -> None:
    """Attach a file that is whole in the end, or nothing: a log of how it came about would be written for no one."""
    db.execute(f"ATTACH {literal(str(draft))} AS {name} (RECOVERY_MODE 'NO_WAL_WRITES', STORAGE_VERSION '{_STORAGE}')")


def attach_copy(db: DuckDBPyConnection, draft: Path, name: str) -> None:
    """Attach a copy of a file in the same way; its form stays that of the file."""
    db.execute(f"ATTACH {literal(str(draft))} AS {name} (RECOVERY_MODE 'NO_WAL_WRITES')")


def raw_connection(connection: Connection) -> DuckDBPyConnection:
    """Return DuckDB's own connection: for CHECKPOINT and ATTACH, and for statements that are text as it is.

    SQLAlchemy's dialect spends most of a millisecond on each statement before DuckDB sees it. The transaction is the
    same whichever way a statement takes.
    """
    return cast("DuckDBPyConnection", connection.connection.driver_connection)


def _present(db: DuckDBPyConnection) -> set[str]:
    return {row[0] for row in db.execute("SELECT schema_name || '.' || table_name FROM duckdb_tables()").fetchall()}


def _revision(db: DuckDBPyConnection, path: Path) -> str | None:
    """Return the revision of the warehouse's tables, which is one this gramhouse knows; None when there are none."""
    present = _present(db)
    if not present:
        return None
    if revisions.TABLE not in present:
        # A snapshot has a warehouse's tables, too.
        if not present.isdisjoint(WAREHOUSE.tables) and _SNAPSHOTS_OWN not in present:
            return revisions.FIRST
        message = (
            f"{path} cannot be used: it is a DuckDB file, but not one that gramhouse wrote as its warehouse"
            f" (it holds {min(present - set(WAREHOUSE.tables))}). Fix: set GRAMHOUSE_WAREHOUSE to another file."
        )
        raise WarehouseUnusable(message)
    revision = revisions.read(db)
    if not revision:
        message = (
            f"{path} cannot be used: {revisions.TABLE} should contain one row, its revision. Fix: restore a backup."
        )
        raise WarehouseUnusable(message)
    if revision not in revisions.REVISIONS:
        message = (
            f"{path} cannot be used: it was written by a newer gramhouse (revision {revision};"
            f" this one knows up to {revisions.HEAD}). Fix: upgrade gramhouse."
        )
        raise WarehouseUnusable(message)
    return revision


def _ready(connection: Connection, path: Path, new_id: Callable[[], str]) -> None:
    """Make the tables of a new file; upgrade those of an older one, or leave it as it was. One transaction."""
    written = None
    try:
        with connection.begin():
            db = raw_connection(connection)
            written = _revision(db, path)
            if written is None:
                revisions.stamp(db, revisions.HEAD)
            elif written != revisions.HEAD:
                _upgrade(connection, written)
            _create(connection, _present(db))
            if not value(db, "SELECT EXISTS (FROM ops.warehouse)"):
                db.execute(f"INSERT INTO ops.warehouse VALUES ({literal(new_id())}, 0)")  # noqa: S608 - quoted
    except WarehouseUnusable:
        raise
    except Exception as error:
        if written in {None, revisions.HEAD}:
            raise
        message = (
            f"{path} cannot be upgraded from revision {written} to {revisions.HEAD} and is unchanged:"
            f" {first_line(error)}. Fix: correct this and retry, or keep using the version that wrote it."
        )
        raise WarehouseUnusable(message) from error


def _upgrade(connection: Connection, written: str) -> None:
    # Imported here because Alembic takes longer to import than a file of today takes to open.
    from connectors.warehouse.storage.migrations.upgrade import upgrade  # noqa: PLC0415

    db = raw_connection(connection)
    if revisions.TABLE not in _present(db):
        revisions.stamp(db, written)
    upgrade(connection, revisions.HEAD)


@compiles(CreateColumn, "duckdb")
def _packed(made: CreateColumn, compiler: DDLCompiler, **given: object) -> str:
    column = made.element
    text: str = compiler.visit_create_column(made, **given)  # type: ignore[no-untyped-call]
    # A migration's columns are none of these: its file may be of an older form.
    return text + packing(column.name) if column.table.metadata is WAREHOUSE else text


def _create(connection: Connection, present: set[str]) -> None:
    missing = [table for table in WAREHOUSE.sorted_tables if table.fullname not in present]
    statements: list[ExecutableDDLElement] = []
    for table in missing:
        statements.append(CreateTable(table))
        if table.comment:
            statements.append(SetTableComment(table))
        statements += [SetColumnComment(column) for column in table.columns if column.comment]
    schemas = sorted({str(table.schema) for table in missing})
    texts = [f"CREATE SCHEMA IF NOT EXISTS {schema}" for schema in schemas]
    texts += [str(statement.compile(dialect=connection.dialect)) for statement in statements]
    # At once, and past the dialect: a new file took it longer than all else in opening it.
    if texts:
        raw_connection(connection).execute(";\n".join(texts))


def value(db: DuckDBPyConnection, query: str) -> Any:  # noqa: ANN401 - whatever the one value is
    """Return the first value of a query's first row."""
    return db.execute(query).fetchall()[0][0]


@contextmanager
def writer(
    path: Path,
    activity: str,
    *,
    since: str,
    pause: Callable[[float], None],
    raw: Path | None = None,
    new_id: Callable[[], str] = lambda: uuid4().hex,
) -> Iterator[Connection]:
    """Hold the warehouse against every other gramhouse, then open it for writing, as `connect` does."""
    with hold(path, activity, since=since, pause=pause), connect(path, raw, new_id=new_id) as connection:
        yield connection


def check(path: Path, *, since: str, pause: Callable[[float], None]) -> None:
    """See whether the warehouse file can be opened and is one this gramhouse can use, and change nothing in it.

    Raises WarehouseBusy and WarehouseUnusable.
    """
    with hold(path, "gramhouse doctor", since=since, pause=pause):
        try:
            with duckdb.connect(str(path), read_only=True) as db:
                _revision(db, path)
        except duckdb.Error as error:
            raise explain(path, error) from error
