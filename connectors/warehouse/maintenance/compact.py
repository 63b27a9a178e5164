"""Rewrites the warehouse file compactly and sorted, and replaces the old file after comparing their rows."""

import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.maintenance.future_times import check_clock
from connectors.warehouse.maintenance.housekeeping import newest
from connectors.warehouse.maintenance.opening import check_exists, opened_store
from connectors.warehouse.raw.compaction import CompactedParts, compact_parts
from connectors.warehouse.storage.connection import Connection, attach_draft, connect, explain
from connectors.warehouse.storage.declared import TABLES
from connectors.warehouse.storage.durable import discard, is_duckdb, sync
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseUnusable, first_line
from connectors.warehouse.storage.holder import hold
from connectors.warehouse.storage.paths import real
from connectors.warehouse.storage.quoting import literal, quoted
from models.schema.mapping import Mapping
from models.schema.mapping_built_in import BUILT_IN

T = TypeVar("T")

_OLD = "old_warehouse"
_DRAFT = "new_warehouse"
# An alias for whole rows; no column has this name.
_ROW = "whole_row_of_it"

_log = logging.getLogger(__name__)

# The prefix of the files to which DuckDB spills.
_SPILLED = "duckdb_temp_"

_KEPT = "The warehouse is unchanged."


@dataclass(frozen=True, slots=True)
class Compacted:
    """The file's size in bytes before (including its WAL) and after, and the result for the raw store."""

    before: int
    after: int
    raw: CompactedParts


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


def rewrite(
    warehouse: Path,
    activity: str,
    work: Callable[[Connection], T],
    *,
    now: datetime,
    pause: Callable[[float], None],
    raw: Path | None = None,
    mapping: Mapping = BUILT_IN,
) -> T:
    """Do `work` on the open warehouse, whose landed pages are merged, then rewrite its file compactly and sorted.

    The warehouse's lock is held for `activity`. `raw` is the folder of raw stores; default: `raw` next to the file.
    Pages that a killed process left are read with `mapping`, unless stored rows were read differently. If rewriting
    fails or the process is killed, the file is as `work` left it. A file of an older version is upgraded, as whenever
    it is opened.

    Raises WarehouseBusy when another process holds the file, and WarehouseUnusable when the file does not exist or
    cannot be used, or when the disk has no space for a second copy.
    """
    check_exists(warehouse)
    # If the path is a symbolic link, its target is replaced.
    path = real(warehouse)
    draft = _draft_of(path)
    with hold(warehouse, activity, since=now.isoformat(timespec="seconds"), pause=pause):
        try:
            # Upgrades the file, and merges the WAL and the segments next to it, whose contents belong in the file.
            with (
                connect(warehouse, raw) as connection,
                opened_store(connection, activity, now=now, pause=pause, mapping=mapping),
            ):
                done = work(connection)
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
    return done


def compact(
    warehouse: Path,
    *,
    now: datetime,
    pause: Callable[[float], None],
    raw: Path | None = None,
    keep_raw: timedelta | None = None,
    mapping: Mapping = BUILT_IN,
) -> Compacted:
    """Rewrite the warehouse file compactly and sorted, and combine small parts of the raw store; return the sizes.

    Raw rows older than `keep_raw` are deleted if a newer one of the same item and version exists; None keeps them. The
    other arguments are those of `rewrite`, which also says what is raised; in addition WarehouseUnusable when the clock
    is behind.
    """
    files = (warehouse, _beside(real(warehouse), ".wal"))
    before = sum(part.stat().st_size for part in files if part.exists())

    def work(connection: Connection) -> CompactedParts:
        check_clock(connection.db, now)
        before_that = None if keep_raw is None else newest(connection, now=now) - keep_raw
        return compact_parts(connection, now=now, before=before_that)

    parts = rewrite(warehouse, "gramhouse compact", work, now=now, pause=pause, raw=raw, mapping=mapping)
    return Compacted(before, warehouse.stat().st_size, parts)
