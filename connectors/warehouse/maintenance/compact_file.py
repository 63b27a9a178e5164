"""Rewrites the warehouse file compactly and sorted, and replaces the old file."""

import os
import shutil
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.connection import STORAGE, explained
from connectors.warehouse.storage.files import discard, logs, private_files, real, sync
from connectors.warehouse.storage.sql import literal, quoted
from models.files import WarehouseUnusable

# How the rows of tables are sorted: as they are asked for. Other tables keep their order.
_ORDERS = {
    "media": "ORDER BY account_id, surface, published_at DESC, media_id",
    "media_versions": "ORDER BY account_id, surface, media_id, raw_landed",
    "media_counts": "ORDER BY account_id, surface, media_id, metric, observed_at, rowid",
}


def rewrite_file(warehouse: Path) -> None:
    """Rewrite the warehouse file compactly and sorted. The caller holds the lock, and has the file closed.

    If it fails or the process is killed, the file is as it was. Raises WarehouseBusy when another program holds the
    file, and WarehouseUnusable when it cannot be used, also when the disk has no space for a second copy.
    """
    # If the path is a symbolic link, its target is replaced.
    path = real(warehouse)
    draft, spill = _beside(path)
    with explained(path), private_files():
        remove_left_over(path)
        try:
            with duckdb.connect(config={"memory_limit": "1GB", "temp_directory": str(spill)}) as db:
                _rewrite(db, path, draft)
        finally:
            remove_left_over(path)


def remove_left_over(path: Path) -> None:
    """Remove the draft of a killed compaction, or a link in its place, and what DuckDB spilled. Raises OSError."""
    draft, spill = _beside(path)
    discard(draft)
    for file in spill.glob("duckdb_temp_*"):
        file.unlink()


def _beside(path: Path) -> tuple[Path, Path]:
    """Return the draft, and the folder to which DuckDB spills, also when the file itself is open."""
    return path.with_name(f".{path.name}.compacted"), path.with_name(f"{path.name}.tmp")


def _rewrite(db: DuckDBPyConnection, path: Path, draft: Path) -> None:
    db.execute("SET enable_progress_bar = false")
    # The old file stays attached until it is replaced: DuckDB's lock keeps other programs from writing to it.
    db.execute(f"ATTACH {literal(str(path))} AS old (READ_ONLY)")
    if logs(path):
        raise WarehouseUnusable(f"cannot compact {path}: another program has just written to it. Fix: try again.")
    db.execute(f"ATTACH {literal(str(draft))} AS new (STORAGE_VERSION '{STORAGE}')")
    db.execute("COPY FROM DATABASE old TO new (SCHEMA)")
    tables = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'old'"
    for schema, table in db.execute(tables).fetchall():
        name = quoted(schema, table)
        db.execute(f"INSERT INTO new.{name} SELECT * FROM old.{name} {_ORDERS.get(table, '')}")  # noqa: S608 - quoted
    db.execute("CHECKPOINT new")
    db.execute("DETACH new")
    before = path.stat()
    shutil.copymode(path, draft)
    os.chown(draft, before.st_uid, before.st_gid)
    sync(draft)
    draft.replace(path)
    sync(path.parent)
