"""Publishes the snapshot: a copy of the warehouse's file, written next to the old one and renamed over it."""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.store.merge.items import read_registry
from connectors.store.publish.contents import create_view, fill_views
from connectors.store.publish.file_copy import copy_file
from connectors.store.publish.hide import HideError, Hiding, find_hidden, functions, write_tables, write_views
from connectors.store.raw.parts import make_durable
from connectors.store.storage.connection import transaction
from connectors.store.storage.errors import WarehouseUnusable, first_line
from connectors.store.storage.quoting import literal
from models.mapping import BUILT_IN
from models.mapping import Mapping as MediaMapping
from models.views import View

_DRAFT = "next_snapshot"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")

_TABLES = (
    "SELECT table_name, list(column_name) FROM duckdb_columns() WHERE schema_name = 'core' AND NOT internal GROUP BY 1"
)


@dataclass(frozen=True, slots=True)
class StateRows:
    """What the views need of the pipeline's state: rows of runs, of their warnings, and of open scans of media."""

    runs: pa.Table
    warnings: pa.Table
    checkpoints: pa.Table


@dataclass(frozen=True, slots=True)
class Publication:
    """What is published and how: when, by which version, and the settings that the snapshot records.

    `hide` is GRAMHOUSE_HIDE, and `salt` is that of its hashes. With `may_show` the snapshot may show what the one
    before hid.
    """

    at: datetime
    version: str
    stale_after: timedelta
    full_refresh_every: timedelta
    raw_folder: Path
    hide: Sequence[str] = ()
    salt: str = ""
    may_show: bool = False


def publish(db: DuckDBPyConnection, warehouse: Path, snapshot: Path, state: StateRows, publication: Publication) -> int:
    """Replace the snapshot with the warehouse as it is now; return the size of its file in bytes.

    The connection is the writer's, and not in a transaction; no other connection writes. Readers that have the old
    snapshot open keep it until they open the file again.

    Raises WarehouseUnusable if the file at the path is not a snapshot of this warehouse, if a column cannot be hidden,
    if the snapshot would show what the one before hid, and if the disk fails. The file at the path is unchanged then,
    unless the message says that it was published.
    """
    draft = snapshot.with_name(f".{snapshot.name}.next")
    try:
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        _discard(draft)
        with transaction(db):
            [(owner, mapping)] = db.execute("SELECT id, mapping FROM core.warehouse").fetchall()
            of_media = MediaMapping.from_json(mapping) if mapping else BUILT_IN
            registry = read_registry(db)
            hiding = find_hidden(publication.hide, of_media, registry) if publication.hide else None
            _check_replaceable(snapshot, owner, hiding, may_show=publication.may_show)
            views = fill_views(of_media, registry)
            _bring_state(db, state)
            _record(db, owner, publication, hiding, views)
        db.execute("CHECKPOINT")
        try:
            if hiding is None:
                copy_file(warehouse, draft)
            else:
                _write_hidden(db, draft, hiding, views, publication.salt)
            size = draft.stat().st_size
            _put_in_place(draft, snapshot, at=publication.at)
        finally:
            _discard(draft)
    except HideError as error:
        raise WarehouseUnusable(str(error)) from error
    except OSError as error:
        raise WarehouseUnusable(
            f"cannot publish {snapshot}: {error.strerror}. The previous snapshot is unchanged."
            " Fix: free space or make the folder writable, then run `gramhouse publish`."
        ) from error
    _check_readable(snapshot)
    return size


def _check_replaceable(snapshot: Path, owner: str, hiding: Hiding | None, *, may_show: bool) -> None:
    """Raise WarehouseUnusable unless the path is free, or has a snapshot of this warehouse that hides no more."""
    if not os.path.lexists(snapshot):
        return
    fix = "Fix: check GRAMHOUSE_SNAPSHOT; if it is correct, move that file away."
    if snapshot.is_symlink() or not snapshot.is_file():
        raise WarehouseUnusable(f"{snapshot} is not a regular file and is not replaced. {fix}")
    with snapshot.open("rb") as opened:
        is_duckdb = opened.read(12)[8:] == b"DUCK"
    found = _read_published(snapshot) if is_duckdb else []
    if len(found) != 1:
        raise WarehouseUnusable(f"{snapshot} is not a gramhouse snapshot and is not replaced. {fix}")
    [(its_owner, hidden)] = found
    if its_owner != owner:
        raise WarehouseUnusable(
            f"{snapshot} is the snapshot of another warehouse and is not replaced. Fix: check GRAMHOUSE_WAREHOUSE (is"
            " its disk mounted?) and GRAMHOUSE_SNAPSHOT; if both are correct, move that snapshot away."
        )
    shown = sorted(_names(hidden) - _names(hiding.setting if hiding else None))
    if shown and not may_show:
        raise WarehouseUnusable(
            f"{snapshot} hides {', '.join(shown)}, and the next snapshot would show it. The previous snapshot is"
            f" unchanged. Fix: set GRAMHOUSE_HIDE={hidden}, or run `gramhouse publish --show-hidden`."
        )


def _names(hidden: str | None) -> set[str]:
    return set(hidden.split(",")) if hidden else set()


def _read_published(snapshot: Path) -> list[tuple[str, str | None]]:
    """Return the warehouse's id, and what is hidden, of a snapshot; nothing of another DuckDB file.

    Raises WarehouseUnusable if it cannot be read.
    """
    try:
        with duckdb.connect(str(snapshot), read_only=True) as reader:
            return reader.execute("SELECT warehouse_id, hidden FROM core.published").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):
        return []
    except duckdb.Error as error:
        raise WarehouseUnusable(
            f"{snapshot} cannot be read ({first_line(error)}) and is not replaced."
            " Fix: close the program that has it open for writing, or move it away."
        ) from error


def _bring_state(db: DuckDBPyConnection, state: StateRows) -> None:
    tables: Mapping[str, pa.Table] = {
        "state_runs": state.runs,
        "state_warnings": state.warnings,
        "state_checkpoints": state.checkpoints,
    }
    for name, table in tables.items():
        db.register(name, table)
    try:
        db.execute((files(__package__) / "sql" / "bring.sql").read_text("utf-8"))
    finally:
        for name in tables:
            db.unregister(name)


def _record(
    db: DuckDBPyConnection, owner: str, publication: Publication, hiding: Hiding | None, views: Sequence[View]
) -> None:
    """Write core.published, and create the views again if they are not these."""
    statements = [statement for view in views for statement in create_view(view)]
    # With DuckDB's version and the types, because a view stores the types of its columns when it is created.
    types = db.execute(
        "SELECT list((table_name, column_name, data_type)) FROM duckdb_columns() WHERE schema_name = 'core'"
    )
    known = sha256(repr((duckdb.__version__, statements, types.fetchall())).encode()).hexdigest()
    if db.execute("SELECT views FROM core.published").fetchall() != [(known,)]:
        for (name,) in db.execute(
            "SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal"
        ).fetchall():
            db.execute(f'DROP VIEW IF EXISTS main."{name}"')
        # In one call: hundreds of small statements took twice as long one by one.
        db.execute(";\n".join(statements))
    db.execute("DELETE FROM core.published")
    row = [
        publication.at,
        publication.version,
        publication.stale_after.total_seconds(),
        owner,
        publication.full_refresh_every.total_seconds(),
        hiding.setting if hiding else None,
        str(publication.raw_folder),
        known,
    ]
    db.execute("INSERT INTO core.published VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def _write_hidden(db: DuckDBPyConnection, draft: Path, hiding: Hiding, views: Iterable[View], salt: str) -> None:
    """Write a snapshot with hidden columns to a new file."""
    [(source,)] = db.execute("SELECT current_database()").fetchall()
    tables = dict(db.execute(_TABLES).fetchall())
    registry = read_registry(db)
    made = functions(hiding, salt)
    for name, function in made.items():
        db.create_function(name, function, ["VARCHAR"], "VARCHAR")
    db.execute(f"ATTACH {literal(str(draft))} AS {_DRAFT} (STORAGE_VERSION 'v1.2.0')")
    try:
        db.execute(f"USE {_DRAFT}")
        with transaction(db):
            for statement in (*write_tables(source, tables, hiding, registry), *write_views(hiding, views)):
                db.execute(statement)
        db.execute(f"CHECKPOINT {_DRAFT}")
    finally:
        db.execute(f"USE {source}")
        db.execute(f"DETACH {_DRAFT}")
        for name in made:
            db.remove_function(name)


def _put_in_place(draft: Path, snapshot: Path, *, at: datetime) -> None:
    """Make the draft read-only for everybody and durable, and rename it to the snapshot."""
    draft.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    modified = (at - _EPOCH) // timedelta(microseconds=1) * 1000
    os.utime(draft, ns=(modified, modified))
    make_durable(draft)
    _remove_logs(snapshot)
    draft.replace(snapshot)
    make_durable(snapshot.parent)


def _remove_logs(file: Path) -> None:
    """Remove the logs next to a file: DuckDB would replay them into the next one of this name."""
    for ending in _LOGS:
        file.with_name(file.name + ending).unlink(missing_ok=True)


def _discard(draft: Path) -> None:
    draft.unlink(missing_ok=True)
    _remove_logs(draft)


def _check_readable(snapshot: Path) -> None:
    """Open the published snapshot as a reader would. Raises WarehouseUnusable if it cannot be read."""
    try:
        with duckdb.connect(str(snapshot), read_only=True) as reader:
            reader.execute("FROM main.published").fetchall()
    except duckdb.Error as error:
        raise WarehouseUnusable(
            f"{snapshot} was published but cannot be read: {first_line(error)}."
            " Fix: close the program that has it open for writing, then run `gramhouse publish`."
        ) from error
