"""Rewrites the warehouse file compactly and sorted, and replaces the old file after comparing their rows."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.connection import STORAGE
from connectors.warehouse.storage.durable import discard, logs, sync
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseUnusable, explain, first_line
from connectors.warehouse.storage.paths import real
from connectors.warehouse.storage.quoting import literal, quoted

_ITEM = "account_id, surface, media_id"

# How the rows of tables are sorted: as they are asked for. Other tables keep their order.
_ORDERS = {
    "media": "account_id, surface, published_at DESC, media_id",
    "media_versions": f"{_ITEM}, raw_landed",
    "media_counts": f"{_ITEM}, metric, observed_at",
}

# Each table, with its columns in order.
_TABLES = """
SELECT schema_name, table_name, list((column_name, data_type, is_nullable, c.comment) ORDER BY column_index)
FROM duckdb_columns() AS c SEMI JOIN duckdb_tables() USING (database_oid, table_oid)
WHERE database_name = ?
GROUP BY ALL
ORDER BY ALL
"""

_KEPT = "The warehouse is unchanged."


def rewrite_file(warehouse: Path) -> None:
    """Rewrite the warehouse file compactly and sorted. The caller holds the lock, and has the file closed.

    If it fails or the process is killed, the file is as it was. Raises WarehouseBusy when another program holds the
    file, and WarehouseUnusable when it cannot be used, or when the disk has no space for a second copy.
    """
    # If the path is a symbolic link, its target is replaced.
    path = real(warehouse)
    try:
        remove_left_over(path)
        try:
            check_room(path)
            _rewrite(path, _draft_of(path))
        finally:
            remove_left_over(path)
    except OSError as error:
        raise WarehouseUnusable(f"cannot compact {warehouse}: {error.strerror}. {_KEPT}") from error
    except duckdb.Error as error:
        if isinstance(explained := explain(warehouse, error), WarehouseBusy):
            raise explained from error
        raise WarehouseUnusable(f"cannot compact {warehouse}: {first_line(error)}. {_KEPT}") from error


def check_room(warehouse: Path) -> None:
    """Raise WarehouseUnusable if the disk has no space for a second copy of the file."""
    path = real(warehouse)
    needed, room = path.stat().st_size, shutil.disk_usage(path.parent).free
    if room < needed:
        raise WarehouseUnusable(
            f"cannot rewrite {path}: a second copy needs up to {needed / 1e6:,.1f} MB, and {path.parent} has"
            f" {room / 1e6:,.1f} MB left. {_KEPT} Fix: free space."
        )


def size_of(warehouse: Path) -> int:
    """Return the bytes of the warehouse file and its log."""
    return sum(part.stat().st_size for part in (warehouse, *logs(real(warehouse))))


def remove_left_over(warehouse: Path) -> None:
    """Remove the draft of a killed compaction, or a link in its place, and what DuckDB spilled. Raises OSError."""
    path = real(warehouse)
    discard(_draft_of(path))
    for file in _spill_of(path).glob("duckdb_temp_*"):
        file.unlink()
    # A folder with other files is not ours.
    with suppress(OSError):
        _spill_of(path).rmdir()


def _draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.compacted")


def _spill_of(path: Path) -> Path:
    """Return the folder to which DuckDB spills, also when the file itself is open."""
    return path.with_name(f"{path.name}.tmp")


def _rewrite(path: Path, draft: Path) -> None:
    with duckdb.connect(config={"memory_limit": "1GB", "temp_directory": str(_spill_of(path))}) as db:
        db.execute("SET enable_progress_bar = false")
        # The old file stays attached until it is replaced: DuckDB's lock keeps other programs from writing to it.
        db.execute(f"ATTACH {literal(str(path))} AS old (READ_ONLY)")
        if logs(path):
            raise WarehouseUnusable(
                f"cannot compact {path}: another program has just written to it. Fix: try again. {_KEPT}"
            )
        _write(db, draft)
        # From the disk.
        db.execute(f"ATTACH {literal(str(draft))} AS new (READ_ONLY)")
        if _contents(db, "new") != _contents(db, "old"):
            raise WarehouseUnusable(
                f"cannot compact {path}: the copy differs from the original. Fix: check the disk. {_KEPT}"
            )
        db.execute("DETACH new")
        _replace(path, draft)


def _write(db: DuckDBPyConnection, draft: Path) -> None:
    db.execute(f"ATTACH {literal(str(draft))} AS new (STORAGE_VERSION '{STORAGE}')")
    db.execute("COPY FROM DATABASE old TO new (SCHEMA)")
    for schema, table, _ in db.execute(_TABLES, ["old"]).fetchall():
        order = f"ORDER BY {_ORDERS[table]}" if table in _ORDERS else ""
        name = quoted(schema, table)
        db.execute(f"INSERT INTO new.{name} SELECT * FROM old.{name} {order}")  # noqa: S608 - quoted names
    db.execute("CHECKPOINT new")
    db.execute("DETACH new")


def _contents(db: DuckDBPyConnection, database: str) -> list[object]:
    """Return all tables with their columns, and the number of their rows with a hash of them in any order."""
    found: list[object] = []
    for schema, table, columns in db.execute(_TABLES, [database]).fetchall():
        # An alias for whole rows, which no column has as its name.
        rows = f"FROM {database}.{quoted(schema, table)} AS whole_row_of_it"
        query = f"SELECT count(*), sum(hash(whole_row_of_it)) {rows}"
        found.append((schema, table, columns, db.execute(query).fetchall()))
    return found


def _replace(path: Path, draft: Path) -> None:
    before = path.stat()
    shutil.copymode(path, draft)
    if (before.st_uid, before.st_gid) != (draft.stat().st_uid, draft.stat().st_gid):
        os.chown(draft, before.st_uid, before.st_gid)
    sync(draft)
    draft.replace(path)
    sync(path.parent)
