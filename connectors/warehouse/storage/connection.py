"""The writer's single connection to the warehouse file."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.storage import limits
from connectors.warehouse.storage.durable import logs
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseError, WarehouseUnusable, first_line, hint_for
from connectors.warehouse.storage.paths import database, real
from connectors.warehouse.storage.quoting import literal
from connectors.warehouse.storage.schema_number import pending_scripts, read_schema_number
from models.identity import Identity

_SETTINGS = {
    "TimeZone": "UTC",
    # DuckDB would print it to standard output, in the middle of JSON output.
    "enable_progress_bar": "false",
    # The default of 16 MB blocks a commit for almost a second, about every 25,000 rows. A run checkpoints at its end.
    "wal_autocheckpoint": "1GB",
    "preserve_insertion_order": "false",
    # The most rows of a join that DuckDB looks up individually in the other table. With its default, 50, it reads every
    # row between the first and the last of them. A list of 10,000 takes 2 ms to build for each column.
    "dynamic_or_filter_threshold": "1000",
    **limits.SETTINGS,
}

# The oldest storage version with zstd compression; every DuckDB since 1.2 can read it.
_STORAGE = "v1.2.0"

# The most bytes of the file and its WAL for which a fast checkpoint is better than a small file.
_SMALL_BYTES = 8 * 1024 * 1024

_CONFLICT = re.compile(r"Conflicting lock is held in (?P<program>.*?) \(PID (?P<pid>\d+)\)")

_HINT = "Fix: check the path and the disk; if the file is damaged, restore a backup."


def explain(path: Path, error: Exception) -> WarehouseError:
    """Convert DuckDB's error about a file into an exception whose message is one line with the fix."""
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
    return WarehouseUnusable(f"{path} cannot be used: {first_line(error)}. {hint_for(error, _HINT)}")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise DuckDB's errors of the block as `explain` converts them; `path` is the file that is open."""
    try:
        yield
    except duckdb.Error as error:
        raise explain(path, error) from error


@dataclass(frozen=True, slots=True, eq=False)
class Connection:
    """A connection to the warehouse file `path`. Outside of `begin`, each statement is a transaction.

    `db` is DuckDB's connection, `raw_folder` the folder of raw stores: a warehouse's raw store is its subfolder with
    the warehouse's id. `file` is open for reading, and closed after `db`.
    """

    db: DuckDBPyConnection
    path: Path
    raw_folder: Path
    file: BinaryIO

    @contextmanager
    def begin(self) -> Iterator[None]:
        """Run the block in a transaction. Commit it at the end, or roll it back if the block raises."""
        self.db.begin()
        try:
            yield
            self.db.commit()
        except BaseException:
            # After some errors DuckDB has rolled back already. The first error is the one that matters.
            with suppress(duckdb.Error):
                self.db.rollback()
            raise


@contextmanager
def connect(
    path: Path, raw: Path | None = None, *, new_id: Callable[[], str] = lambda: uuid4().hex
) -> Iterator[Connection]:
    """Open the warehouse file for writing; create a new file with all tables, and change those of an older schema.

    `raw` is the folder of raw stores; default: `raw` next to the file. `new_id` generates the id of a new warehouse.

    Raises WarehouseBusy when another program holds the file. Raises WarehouseUnusable when DuckDB cannot use the file,
    when it is not a warehouse of this gramhouse's or an older schema, or when its tables cannot be changed.
    """
    try:
        # DuckDB names the WAL of a new file after a symbolic link to it, and that of an existing file after the file.
        target = database(real(database(path)))
    except ValueError as error:
        raise WarehouseUnusable(f"{path} cannot be used: {error}.") from None
    with ExitStack() as last, ExitStack() as stack:
        try:
            db = stack.enter_context(duckdb.connect(str(target), config={"storage_compatibility_version": _STORAGE}))
            _set(db)
            stack.callback(limits.allow_checkpoint, db)
            # Closed after DuckDB's handle: closing any handle of a file releases all locks that the process has on it.
            file = last.enter_context(target.open("rb"))
            connection = Connection(db, target, target.parent / "raw" if raw is None else raw, file)
            _prepare_tables(connection, new_id)
        except (duckdb.Error, OSError) as error:
            raise explain(path, error) from error
        yield connection


def _prepare_tables(connection: Connection, new_id: Callable[[], str]) -> None:
    number = read_schema_number(connection.db, connection.path)
    for after, script in pending_scripts(number, new_id).items():
        try:
            with connection.begin():
                connection.db.execute(script)
        except duckdb.Error as error:
            raise WarehouseUnusable(
                f"{connection.path}: its tables cannot be changed to schema {after}, and nothing of this change was"
                f" done: {first_line(error)}. {hint_for(error, _HINT)}"
            ) from error


def _set(db: DuckDBPyConnection) -> None:
    for name, setting in _SETTINGS.items():
        db.execute(f"SET {name} = '{setting}'")


def open_sibling(connection: Connection) -> Connection:
    """Open another connection to the same file, with separate transactions. It is closed together with the first."""
    db = connection.db.cursor()
    _set(db)
    return replace(connection, db=db)


def checkpoint(connection: Connection) -> None:
    """Write the contents of the WAL to the warehouse file. Call it outside of a transaction. Raises duckdb.Error.

    In a small file texts are not compressed with FSST: trying it takes half of the time of a checkpoint.
    """
    file, db = connection.path, connection.db
    is_small = sum(each.stat().st_size for each in (file, *logs(file)) if each.exists()) <= _SMALL_BYTES
    db.execute(f"SET disabled_compression_methods = '{'fsst' if is_small else ''}'")
    db.execute("CHECKPOINT")
    # Large inserts are compressed when they are committed, before the next checkpoint.
    db.execute("RESET disabled_compression_methods")


def warehouse_id(connection: Connection) -> str:
    """Return the warehouse's id."""
    return str(value(connection.db, "SELECT warehouse_id FROM ops.warehouse"))


def read_identity(connection: Connection) -> Identity:
    """Return what the state's file is compared with."""
    [row] = connection.db.execute("SELECT token, merged_seq, token_before FROM ops.warehouse").fetchall()
    return Identity(*row)


def write_token(connection: Connection, token: str, *, before: str | None) -> None:
    """Store the token of this opening, and the one before while the state may still have it."""
    connection.db.execute("UPDATE ops.warehouse SET token = ?, token_before = ?", [token, before])


def attach_draft(db: DuckDBPyConnection, draft: Path, name: str) -> None:
    """Attach a new file, or a copy of one, whose storage version does not change.

    No WAL is written for it: if writing the draft fails, it is discarded, not recovered.
    """
    version = "" if draft.exists() else f", STORAGE_VERSION '{_STORAGE}'"
    db.execute(f"ATTACH {literal(str(draft))} AS {name} (RECOVERY_MODE 'NO_WAL_WRITES'{version})")


def value(db: DuckDBPyConnection, query: str) -> Any:  # noqa: ANN401 - a value of any type
    """Return the first value of a query's first row."""
    return db.execute(query).fetchall()[0][0]
