"""Rewrites the warehouse file compactly and sorted, and replaces the old file after comparing their rows."""

import logging
import os
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.maintenance.future_times import check_clock
from connectors.warehouse.maintenance.housekeeping import newest
from connectors.warehouse.raw.compaction import CompactedParts, compact_parts
from connectors.warehouse.storage.connection import Connection, attach_draft, explain
from connectors.warehouse.storage.declared import TABLES
from connectors.warehouse.storage.durable import discard, is_duckdb, sync
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseUnusable, first_line
from connectors.warehouse.storage.paths import real
from connectors.warehouse.storage.quoting import literal, quoted

_OLD = "old_warehouse"
_DRAFT = "new_warehouse"
# An alias for whole rows; no column has this name.
_ROW = "whole_row_of_it"

_log = logging.getLogger(__name__)

# The prefix of the files to which DuckDB spills.
_SPILLED = "duckdb_temp_"

_KEPT = "The warehouse is unchanged."


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _tables(db: DuckDBPyConnection, database: str) -> dict[tuple[str, str], list[tuple[object, ...]]]:
    """Return each table's columns in order: name, type, whether it may be NULL, comment."""
    found: dict[tuple[str, str], list[tuple[object, ...]]] = {}
    columns = db.execute(
        "SELECT schema_name, table_name, column_name, data_type, is_nullable, comment FROM duckdb_columns()"
        " SEMI JOIN duckdb_tables() USING (database_oid, table_oid) WHERE database_name = ?"
        " ORDER BY schema_name, table_name, column_index",
        [database],
    ).fetchall()
    for schema, table, *column in columns:
        found.setdefault((schema, table), []).append(tuple(column))
    return found


def _order(schema: str, table: str, columns: set[object]) -> str:
    # Tables that are not declared are child tables, one for each list of objects in items, sorted like media_children.
    order = TABLES.get(f"{schema}.{table}", TABLES["core.media_children"]).order
    return f"ORDER BY {order}" if order and all(key.split()[0] in columns for key in order.split(", ")) else ""


def _need_room(db: DuckDBPyConnection, path: Path) -> None:
    ((used,),) = db.execute(
        f"SELECT used_blocks * block_size FROM pragma_database_size() WHERE database_name = '{_OLD}'"  # noqa: S608
    ).fetchall()
    if (room := shutil.disk_usage(path.parent).free) < used:
        raise WarehouseUnusable(
            f"cannot compact {path}: a second copy needs {used / 1e6:,.1f} MB,"
            f" and {path.parent} has {room / 1e6:,.1f} MB left. {_KEPT}"
        )


def _write(db: DuckDBPyConnection, draft: Path) -> None:
    attach_draft(db, draft, _DRAFT)
    db.execute(f"COPY FROM DATABASE {_OLD} TO {_DRAFT} (SCHEMA)")
    for (schema, table), columns in _tables(db, _OLD).items():
        order = _order(schema, table, {column[0] for column in columns})
        target, source = quoted(_DRAFT, schema, table), quoted(_OLD, schema, table)
        db.execute(f"INSERT INTO {target} SELECT * FROM {source} {order}")  # noqa: S608
    db.execute(f"CHECKPOINT {_DRAFT}")
    db.execute(f"DETACH {_DRAFT}")


def _verify(db: DuckDBPyConnection, path: Path, draft: Path) -> None:
    """Check that the draft on disk has the same tables, columns and rows, in any order. Raises WarehouseUnusable."""
    db.execute(f"ATTACH {literal(str(draft))} AS {_DRAFT} (READ_ONLY)")
    tables = _tables(db, _OLD)
    same = _tables(db, _DRAFT) == tables
    for schema, table in tables:
        seen = [
            db.execute(
                f"SELECT count(*), bit_xor(hash({_ROW})), sum(hash({_ROW}))"  # noqa: S608
                f" FROM {quoted(database, schema, table)} AS {_ROW}"
            ).fetchall()
            for database in (_OLD, _DRAFT)
        ]
        same = same and seen[0] == seen[1]
    db.execute(f"DETACH {_DRAFT}")
    if not same:
        raise WarehouseUnusable(
            f"cannot compact {path}: the copy differs from the original. Fix: check the disk. {_KEPT}"
        )


def _replace(path: Path, draft: Path) -> None:
    before = path.stat()
    shutil.copymode(path, draft)
    if (before.st_uid, before.st_gid) != (draft.stat().st_uid, draft.stat().st_gid):
        os.chown(draft, before.st_uid, before.st_gid)
    sync(draft)
    draft.replace(path)
    sync(path.parent)


def _clear(draft: Path) -> None:
    discard(draft)
    shutil.rmtree(_beside(draft, ".tmp"), ignore_errors=True)


def _draft_of(warehouse: Path) -> Path:
    """Return the path to which a compaction writes; `warehouse` is a resolved path."""
    return warehouse.with_name(f".{warehouse.name}.compacted")


def _remove_spilled(spill: Path) -> None:
    if not spill.is_symlink() and spill.is_dir() and all(file.name.startswith(_SPILLED) for file in spill.iterdir()):
        shutil.rmtree(spill)


def remove_left_over(warehouse: Path) -> None:
    """Remove the draft and the spill folder of a killed compaction; other files with these names are kept.

    The caller has the warehouse open for writing, so no compaction is running.
    """
    draft = _draft_of(warehouse)
    spill = _beside(draft, ".tmp")
    try:
        # DuckDB may not have written anything to it yet.
        if draft.is_file() and not draft.is_symlink() and (not draft.stat().st_size or is_duckdb(draft)):
            discard(draft)
            _log.warning("Removed %s: the copy of an interrupted compaction.", draft)
        _remove_spilled(spill)
    except OSError as error:
        _log.warning(
            "Could not remove the copy of an interrupted compaction: %s. Fix: remove %s.", error.strerror, draft
        )


def _rewrite(path: Path, draft: Path) -> None:
    spill = str(_beside(draft, ".tmp"))
    with duckdb.connect(config={"memory_limit": "1GB", "temp_directory": spill}) as db:
        db.execute("SET enable_progress_bar = false")
        # The old file stays attached until it is replaced: DuckDB's lock keeps other programs from writing to it.
        db.execute(f"ATTACH {literal(str(path))} AS {_OLD} (READ_ONLY)")
        if _beside(path, ".wal").exists():
            raise WarehouseUnusable(
                f"cannot compact {path}: another program has just written to it. Fix: try again. {_KEPT}"
            )
        _need_room(db, path)
        _write(db, draft)
        _verify(db, path, draft)
        _replace(path, draft)


def rewrite_file(warehouse: Path) -> None:
    """Rewrite the warehouse file compactly and sorted. The caller holds the lock, and has the file closed.

    If it fails or the process is killed, the file is as it was. Raises WarehouseBusy when another program holds the
    file, and WarehouseUnusable when it cannot be used, or when the disk has no space for a second copy.
    """
    # If the path is a symbolic link, its target is replaced.
    path = real(warehouse)
    draft = _draft_of(path)
    try:
        _remove_spilled(_beside(path, ".tmp"))
        _clear(draft)
        try:
            _rewrite(path, draft)
        finally:
            _clear(draft)
    except OSError as error:
        raise WarehouseUnusable(f"cannot compact {warehouse}: {error.strerror}. {_KEPT}") from error
    except duckdb.Error as error:
        if isinstance(explained := explain(warehouse, error), WarehouseBusy):
            raise explained from error
        raise WarehouseUnusable(f"cannot compact {warehouse}: {first_line(error)}. {_KEPT}") from error


def compact_store(connection: Connection, *, now: datetime, keep: timedelta | None) -> CompactedParts:
    """Combine small parts of the raw store; return their sizes before and after.

    Raw rows older than `keep` are deleted if a newer one of the same item and version exists; None keeps them. The
    connection must not be in a transaction. Raises WarehouseUnusable, also when the clock is behind.
    """
    check_clock(connection.db, now)
    return compact_parts(connection, now=now, before=None if keep is None else newest(connection, now=now) - keep)


def size_of(warehouse: Path) -> int:
    """Return the bytes of the warehouse file and its log."""
    files = (warehouse, _beside(real(warehouse), ".wal"))
    return sum(part.stat().st_size for part in files if part.exists())
