"""Publishes the snapshot: a copy of the warehouse's file, written next to the old one and renamed over it."""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.items import read_registry
from connectors.warehouse.publish.contents import create_view, fill_views
from connectors.warehouse.publish.hide import Hiding, find_hidden, write_hidden
from connectors.warehouse.publish.replaceable import check_replaceable
from connectors.warehouse.queries.progress import query_dues
from connectors.warehouse.storage.connection import flush_log, transaction
from connectors.warehouse.storage.files import discard, logs, sync
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.sql import quoted, statements
from models.files import WarehouseUnusable
from models.mapping import BUILT_IN, MediaMapping, Registry
from models.selection import Goals

_SQL = statements(__name__)

_BYTES_PER_CALL = 64 * 1024 * 1024

StateRows: TypeAlias = Sequence[pa.Table]
"""What the views need of the pipeline's state: rows of runs, of their warnings, and of open scans of media."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What is published and how: when, by which version, and the settings that the snapshot records.

    `hide` is GRAMHOUSE_HIDE, and `salt` is that of its hashes. With `may_show` the snapshot may show what the one
    before hid. `goals` and `scan_expired` say when feeds are due.
    """

    at: datetime
    version: str
    stale_after: timedelta
    full_refresh_every: timedelta
    goals: Goals
    scan_expired: bool = False
    raw_folder: Path = Path()
    hide: Sequence[str] = ()
    salt: str = ""
    may_show: bool = False


def publish(db: DuckDBPyConnection, warehouse: Path, snapshot: Path, state: StateRows, publication: Publication) -> int:
    """Replace the snapshot with the warehouse as it is now; return the size of its file in bytes.

    The connection is the writer's, and not in a transaction; no other connection writes. Readers that have the old
    snapshot open keep it until they open the file again.

    Raises WarehouseUnusable if the file at the path is not a snapshot of this warehouse, if a column cannot be hidden,
    if the snapshot would show what the one before hid, and if the disk fails. The path has the old snapshot then, or
    the new one, whole.
    """
    draft = snapshot.with_name(f".{snapshot.name}.next")
    try:
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        discard(draft)
        with transaction(db):
            mapping, registry, hiding = prepare(db, snapshot, publication)
            views = fill_views(mapping, registry, hiding.hidden)
            create_views = [statement for view in views for statement in create_view(view)]
            bring_state(db, state)
            dues, parameters = query_dues(publication.goals, scan_expired=publication.scan_expired)
            db.execute(_SQL["due_scans"].replace("{dues}", dues), parameters)
            _record(db, publication, hiding.setting or None, create_views)
        flush_log(db)
        try:
            if hiding.hidden:
                write_hidden(db, draft, hiding, registry, create_views)
            else:
                copy_file(warehouse, draft)
            size = draft.stat().st_size
            _put_in_place(draft, snapshot, at=publication.at)
        finally:
            discard(draft)
    except OSError as error:
        raise WarehouseUnusable(
            f"cannot publish {snapshot}: {error.strerror}."
            " Fix: free space or make the folder writable, then run `gramhouse publish`."
        ) from error
    return size


def prepare(db: DuckDBPyConnection, snapshot: Path, publication: Publication) -> tuple[MediaMapping, Registry, Hiding]:
    """Return the mapping in force, the registry, and what is hidden; in the open transaction.

    Raises WarehouseUnusable, as `publish` would, if the snapshot must not be published.
    """
    row, registry = read_warehouse(db), read_registry(db)
    mapping = row.mapping or BUILT_IN
    hiding = find_hidden(publication.hide, publication.salt, mapping, registry)
    check_replaceable(snapshot, row.id, hiding.setting, may_show=publication.may_show)
    return mapping, registry, hiding


def bring_state(db: DuckDBPyConnection, state: StateRows) -> None:
    """Replace the rows of the state that the warehouse has, in the open transaction. Raises duckdb.Error."""
    for name, table in zip(("state_runs", "state_warnings", "state_checkpoints"), state, strict=True):
        db.register(name, table)
    db.execute(_SQL["bring"])


def _record(db: DuckDBPyConnection, publication: Publication, hidden: str | None, create_views: Sequence[str]) -> None:
    """Write core.published, and create the views again if they are not these."""
    # With DuckDB's version and the types, because a view stores the types of its columns when it is created.
    types = db.execute(_SQL["types"]).fetchall()
    known = sha256(repr((duckdb.__version__, create_views, types)).encode()).hexdigest()
    if db.execute("SELECT views FROM core.published").fetchall() != [(known,)]:
        dropped = [f"DROP VIEW main.{quoted(name)}" for (name,) in db.execute(_SQL["views"]).fetchall()]
        # In one call: hundreds of small statements took twice as long one by one.
        db.execute(";\n".join([*dropped, *create_views]))
    row = [
        *(publication.at, publication.version, publication.stale_after.total_seconds()),
        *(publication.full_refresh_every.total_seconds(), hidden),
        *(str(publication.raw_folder), known),
    ]
    db.execute("DELETE FROM core.published")
    db.execute(_SQL["published"], row)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file to a new one, without fsync: in the kernel, which shares the blocks if the file system can.

    Raises OSError.
    """
    with source.open("rb") as opened, target.open("xb") as made:
        # Only Linux has this call, and not for all file systems. An error of the disk occurs again below.
        with suppress(OSError, AttributeError):
            while os.copy_file_range(opened.fileno(), made.fileno(), _BYTES_PER_CALL):
                pass
        # The call moves both places, so that this copies what is left.
        shutil.copyfileobj(opened, made)


def _put_in_place(draft: Path, snapshot: Path, *, at: datetime) -> None:
    """Make the draft read-only for everybody and durable, and rename it to the snapshot."""
    draft.chmod(0o444)
    # To the microsecond, because SnapshotBucket compares it.
    modified = round(at.timestamp() * 1_000_000) * 1000
    os.utime(draft, ns=(modified, modified))
    sync(draft)
    # DuckDB would replay them into the next file of this name.
    for log in logs(snapshot):
        log.unlink()
    draft.replace(snapshot)
    sync(snapshot.parent)
