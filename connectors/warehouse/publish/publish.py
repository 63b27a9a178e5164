"""Publishes the snapshot: a copy of the warehouse's file, written next to the old one and renamed over it."""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.items import read_registry
from connectors.warehouse.publish.contents import create_view, fill_views
from connectors.warehouse.publish.file_copy import copy_file
from connectors.warehouse.publish.hidden_json import find_pruned, prune_batch
from connectors.warehouse.publish.hide import HideError, Hiding, find_hidden, hidden_rows, write_views
from connectors.warehouse.publish.replaceable import check_replaceable
from connectors.warehouse.storage.connection import transaction
from connectors.warehouse.storage.durable import discard, logs, sync
from connectors.warehouse.storage.errors import WarehouseUnusable, first_line
from connectors.warehouse.storage.quoting import literal, quoted
from connectors.warehouse.storage.statements import statements
from models.mapping import BUILT_IN
from models.mapping import Mapping as MediaMapping
from models.registry import Registry
from models.views import View

_SQL = statements(__name__)

_DRAFT = "next_snapshot"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The rows that are hidden at once.
_AT_ONCE = 20_000

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
    raw_folder: Path = Path()
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
        discard(draft)
        with transaction(db):
            owner, of_media, registry, hiding = _prepare(db, snapshot, publication)
            views = fill_views(of_media, registry)
            bring_state(db, state)
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
            discard(draft)
    except HideError as error:
        raise WarehouseUnusable(str(error)) from error
    except OSError as error:
        raise WarehouseUnusable(
            f"cannot publish {snapshot}: {error.strerror}. The previous snapshot is unchanged."
            " Fix: free space or make the folder writable, then run `gramhouse publish`."
        ) from error
    _check_readable(snapshot)
    return size


def find_refusal(db: DuckDBPyConnection, snapshot: Path, publication: Publication) -> str | None:
    """Return why `publish` would refuse: a line with the fix; None if it would not. The caller is in a transaction."""
    try:
        _prepare(db, snapshot, publication)
    except (HideError, WarehouseUnusable) as error:
        return str(error)
    return None


def _prepare(
    db: DuckDBPyConnection, snapshot: Path, publication: Publication
) -> tuple[str, MediaMapping, Registry, Hiding | None]:
    """Return the warehouse's id, the mapping in force, the registry, and what is hidden.

    Raises HideError and WarehouseUnusable.
    """
    [(owner, mapping)] = db.execute("SELECT id, mapping FROM core.warehouse").fetchall()
    of_media = MediaMapping.from_json(mapping) if mapping else BUILT_IN
    registry = read_registry(db)
    hiding = find_hidden(publication.hide, of_media, registry) if publication.hide else None
    check_replaceable(snapshot, owner, hiding.setting if hiding else None, may_show=publication.may_show)
    return owner, of_media, registry, hiding


def bring_state(db: DuckDBPyConnection, state: StateRows) -> None:
    """Replace the rows of the state that the warehouse has, in the open transaction. Raises duckdb.Error."""
    tables: Mapping[str, pa.Table] = {
        "state_runs": state.runs,
        "state_warnings": state.warnings,
        "state_checkpoints": state.checkpoints,
    }
    for name, table in tables.items():
        db.register(name, table)
    try:
        db.execute(_SQL["bring"])
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
    pruned = find_pruned(hiding, salt, registry)
    db.execute(f"ATTACH {literal(str(draft))} AS {_DRAFT} (STORAGE_VERSION 'v1.2.0')")
    try:
        db.execute(f"USE {_DRAFT}")
        with closing(db.cursor()) as reader, transaction(db):
            db.execute("CREATE SCHEMA core")
            for table, select in hidden_rows(source, tables, hiding, salt).items():
                rows = reader.execute(select).to_arrow_reader(_AT_ONCE)
                batches = (prune_batch(batch, pruned.get(table, {})) for batch in rows)
                db.register("hidden_rows", pa.RecordBatchReader.from_batches(rows.schema, batches))
                db.execute(f"CREATE TABLE core.{quoted(table)} AS FROM hidden_rows")
                db.unregister("hidden_rows")
            for statement in write_views(hiding, views):
                db.execute(statement)
        db.execute(f"CHECKPOINT {_DRAFT}")
    finally:
        db.execute(f"USE {source}")
        db.execute(f"DETACH {_DRAFT}")


def _put_in_place(draft: Path, snapshot: Path, *, at: datetime) -> None:
    """Make the draft read-only for everybody and durable, and rename it to the snapshot."""
    draft.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    modified = (at - _EPOCH) // timedelta(microseconds=1) * 1000
    os.utime(draft, ns=(modified, modified))
    sync(draft)
    # DuckDB would replay them into the next file of this name.
    for log in logs(snapshot):
        log.unlink()
    draft.replace(snapshot)
    try:
        sync(snapshot.parent)
    except OSError as error:
        raise WarehouseUnusable(
            f"{snapshot} was published, but {snapshot.parent} cannot be used: {error.strerror}."
            " Fix: make the folder writable, then run `gramhouse publish`."
        ) from error


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
