"""Whose file is at the snapshot's path: only a snapshot of this warehouse is replaced."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.connection import Connection, warehouse_id
from connectors.warehouse.storage.durable import discard, is_duckdb, logs
from connectors.warehouse.storage.errors import first_line
from connectors.warehouse.storage.quoting import literal

# The name under which a snapshot is attached for reading.
PUBLISHED = "published_snapshot"

_FIX = "check GRAMHOUSE_SNAPSHOT; if it is correct, move that file away"
_FIX_OF_ANOTHER = (
    "check GRAMHOUSE_WAREHOUSE (is its disk mounted?) and GRAMHOUSE_SNAPSHOT; if both are correct, move that snapshot"
    " away"
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the file at the snapshot's path is not replaced, and what a person can do about it."""

    what: str
    fix: str = _FIX

    def __str__(self) -> str:
        return f"{self.what} Fix: {self.fix}."


def of_another_warehouse(snapshot: str) -> Refusal:
    """Return the refusal to replace the snapshot of another warehouse; `snapshot` is its path or address."""
    return Refusal(f"{snapshot} is the snapshot of another warehouse and is not replaced.", _FIX_OF_ANOTHER)


def file_refusal(snapshot: Path) -> Refusal | None:
    """Return why the file at this path cannot be a snapshot; None if it is a DuckDB file, or if there is none."""
    if not os.path.lexists(snapshot):
        return None
    why = None
    if snapshot.is_symlink():
        why = "is a symbolic link"
    elif snapshot.is_dir():
        why = "is a folder"
    elif not snapshot.is_file():
        # Not opened, because opening a pipe waits for its writer.
        why = "is not a regular file"
    else:
        try:
            if not is_duckdb(snapshot):
                why = "is not a DuckDB file" if snapshot.stat().st_size else "is an empty file"
        except OSError as error:
            why = f"cannot be read ({error.strerror})"
    return None if why is None else Refusal(f"{snapshot} {why} and is not replaced.")


def _owner(db: DuckDBPyConnection, file: Path) -> str | None:
    """Return the id of a snapshot's warehouse; None if the file is no snapshot. Raises duckdb.Error."""
    db.execute(f"ATTACH {literal(str(file))} AS {PUBLISHED} (READ_ONLY)")
    try:
        ids = db.execute(f"SELECT warehouse_id FROM {PUBLISHED}.main.published").fetchall()  # noqa: S608 - a constant
    except (duckdb.CatalogException, duckdb.BinderException):
        return None
    finally:
        db.execute(f"DETACH {PUBLISHED}")
    return ids[0][0] if len(ids) == 1 and isinstance(ids[0][0], str) else None


def _owner_of_copy(db: DuckDBPyConnection, snapshot: Path, draft: Path) -> str | None:
    # Another program has opened the file for writing. A copy has neither its lock nor its log.
    try:
        discard(draft)
        shutil.copyfile(snapshot, draft)
        return _owner(db, draft)
    finally:
        discard(draft)


def _owner_or_refusal(db: DuckDBPyConnection, snapshot: Path, draft: Path) -> str | Refusal | None:
    """Return the id of a snapshot's warehouse, or why the file is no snapshot; None if there is no file.

    Raises OSError.
    """
    if (refused := file_refusal(snapshot)) is not None or not snapshot.exists():
        return refused
    try:
        try:
            owner = _owner_of_copy(db, snapshot, draft) if logs(snapshot) else _owner(db, snapshot)
        except duckdb.IOException:
            owner = _owner_of_copy(db, snapshot, draft)
    except duckdb.Error as error:
        return Refusal(f"{snapshot} cannot be read ({first_line(error)}) and is not replaced.")
    return owner or Refusal(f"{snapshot} is a DuckDB file, but not a gramhouse snapshot, and is not replaced.")


def refusal(connection: Connection, snapshot: Path, draft: Path) -> Refusal | None:
    """Return why `publish` must not replace the file at this path; None if it is this warehouse's, or if there is none.

    `draft` is the path of a temporary copy. The connection must not be in a transaction. Raises OSError.
    """
    owner = _owner_or_refusal(connection.db, snapshot, draft)
    if owner is None or isinstance(owner, Refusal):
        return owner
    with connection.begin():
        own = warehouse_id(connection)
    return None if owner == own else of_another_warehouse(str(snapshot))


def download_refusal(snapshot: Path, draft: Path) -> Refusal | None:
    """Return why a download must not replace the file at this path; None if it is a snapshot, or if there is none.

    `draft` is the path of a temporary copy. Raises OSError.
    """
    with duckdb.connect() as db:
        owner = _owner_or_refusal(db, snapshot, draft)
    return owner if isinstance(owner, Refusal) else None
