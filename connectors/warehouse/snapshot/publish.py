"""Publishes the snapshot: a copy of the warehouse file, written next to the old one and renamed over it."""

import logging
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.raw.listed import list_statement
from connectors.warehouse.raw.parts import store_of
from connectors.warehouse.snapshot.contents import lookups, snapshot_views
from connectors.warehouse.snapshot.file_copy import copy_file
from connectors.warehouse.snapshot.hiding import Hiding, core_tables, find_hidden, hide_refusal, statements
from connectors.warehouse.snapshot.ownership import PUBLISHED, Refusal, refusal
from connectors.warehouse.snapshot.stored_views import store_views
from connectors.warehouse.storage.connection import (
    Connection,
    attach_draft,
    checkpoint,
    explain,
    value,
    warehouse_id,
)
from connectors.warehouse.storage.durable import discard, logs, sync
from connectors.warehouse.storage.errors import WarehouseUnusable, first_line
from connectors.warehouse.storage.limits import in_enough_memory, on_all_cores
from connectors.warehouse.storage.paths import real
from connectors.warehouse.storage.quoting import literal, quoted
from models.incremental import FULL_REFRESH_EVERY
from models.runs import STALE_AFTER
from models.views import View

_log = logging.getLogger(__name__)

_DRAFT = "next_snapshot"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _remove_logs(snapshot: Path) -> None:
    """Remove logs of a program that opened the snapshot for writing: DuckDB would replay them into the new one."""
    for log in logs(snapshot):
        log.unlink(missing_ok=True)
        _log.warning(
            "Removed %s: a program had opened the snapshot for writing, and its changes are lost."
            " Fix: open the snapshot read-only.",
            log,
        )


def _check(db: DuckDBPyConnection, snapshot: Path) -> None:
    """Open the published snapshot as a reader would. Raises WarehouseUnusable if it cannot be read or has a log."""
    fix = f"Fix: close the program that has {snapshot.name} open for writing, then run `gramhouse publish`."
    try:
        db.execute(f"ATTACH {literal(str(snapshot))} AS {PUBLISHED} (READ_ONLY)")
        try:
            db.execute(f"FROM {PUBLISHED}.main.published").fetchall()
        finally:
            db.execute(f"DETACH {PUBLISHED}")
    except duckdb.Error as error:
        raise WarehouseUnusable(f"{snapshot} was published but cannot be read: {first_line(error)}. {fix}") from error
    if left := logs(snapshot):
        raise WarehouseUnusable(
            f"{snapshot} was published, but another program writes to {left[0].name}: readers see its changes. {fix}"
        )


def _put_in_place(db: DuckDBPyConnection, draft: Path, snapshot: Path, *, at: datetime) -> None:
    """Make the draft read-only and durable, rename it to the snapshot, and check the result.

    Logs of the old snapshot are removed before the rename, so that DuckDB never replays them into the new one, and
    again after it. Raises OSError before the rename, and WarehouseUnusable after it.
    """
    draft.chmod(stat.S_IMODE(draft.stat().st_mode) & ~0o222)
    # The modification time is the time of publication, as in the table `published`.
    modified = (at - _EPOCH) // timedelta(microseconds=1) * 1000
    os.utime(draft, ns=(modified, modified))
    sync(draft)
    _remove_logs(snapshot)
    draft.replace(snapshot)
    try:
        _remove_logs(snapshot)
        sync(snapshot.parent)
    except OSError as error:
        raise WarehouseUnusable(
            f"{snapshot} was published, but {snapshot.parent} cannot be used: {error.strerror}."
            " Fix: make the folder writable, then run `gramhouse publish`."
        ) from error
    _check(db, snapshot)


def draft_of(snapshot: Path) -> Path:
    """Return the path to which a snapshot is written before it is renamed."""
    return snapshot.with_name(f".{snapshot.name}.next")


def publish_refusal(connection: Connection, snapshot: Path, hide: Sequence[str]) -> Refusal | None:
    """Return why `publish` would not replace the file at this path, or cannot hide a column; None if it would.

    The connection must not be in a transaction. Raises OSError.
    """
    if (refused := refusal(connection, snapshot, draft_of(snapshot))) is not None or not hide:
        return refused
    with connection.begin():
        return hide_refusal(connection, hide)


def _write_all(connection: Connection) -> None:
    """Checkpoint the warehouse, so that a copy of its file is complete. Raises WarehouseUnusable."""
    file = connection.path
    checkpoint(connection)
    if any(log.stat().st_size for log in logs(file)):
        raise WarehouseUnusable(f"cannot publish: the log of {file} is in use. The previous snapshot is unchanged.")


@contextmanager
def _opened(db: DuckDBPyConnection, draft: Path) -> Iterator[str]:
    """Attach the draft as the current database, in a transaction that is committed if the block succeeds.

    The block's statements do not name their database. Yield the name of the database that was current before.
    """
    database = value(db, "SELECT current_database()")
    attach_draft(db, draft, _DRAFT)
    try:
        db.execute(f"USE {_DRAFT}")
        db.execute("BEGIN")
        try:
            yield database
            db.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.Error):
                db.execute("ROLLBACK")
            raise
        db.execute(f"CHECKPOINT {_DRAFT}")
    finally:
        db.execute(f"USE {quoted(database)}")
        db.execute(f"DETACH {_DRAFT}")


def _complete(db: DuckDBPyConnection, draft: Path, published: Mapping[str, object], raw_folder: Path) -> None:
    """Turn a copy of the warehouse file, with its views, into a snapshot. Call it outside of a transaction.

    It gets tables of what the views need from the control tables, which are dropped. `published` is the row of that
    table, by column. Raises duckdb.Error.
    """
    # Without parameters: for the first one in a process DuckDB imports numpy, which takes longer than the statements.
    statements = [
        *(f"CREATE TABLE {name} AS {select}" for name, select in lookups(published).items()),
        list_statement(raw_folder),
        "DROP SCHEMA ops CASCADE",
    ]
    with _opened(db, draft):
        db.execute(";\n".join(statements))


def _write_hidden(
    db: DuckDBPyConnection, draft: Path, hiding: Hiding, views: Sequence[View], published: Mapping[str, object]
) -> None:
    """Write a snapshot with hidden columns to a new file. Call it outside of a transaction. Raises duckdb.Error."""
    tables = core_tables(db)
    with _opened(db, draft) as warehouse:
        db.execute(";\n".join(statements(warehouse, tables, hiding, views, published)))


def publish(
    connection: Connection,
    snapshot: Path,
    *,
    at: datetime,
    version: str,
    stale_after: timedelta = STALE_AFTER,
    full_refresh_every: timedelta = FULL_REFRESH_EVERY,
    hide: Sequence[str] = (),
) -> int:
    """Replace the snapshot with a copy of the warehouse file that has views for analysts; return its size in bytes.

    With columns to `hide` (see `find_hidden`) it is a new file with the other columns. The caller records this after
    uploading the snapshot if there is a bucket.

    Readers that have the old snapshot open keep it until they open the file again. The connection must not be in a
    transaction, and no other connection may write.

    Raises WarehouseUnusable when the folder cannot be written or the disk is full; when the file at the path is not a
    snapshot of this warehouse; when a column cannot be hidden; and when the new snapshot, after it was renamed, cannot
    be read or made durable. Except in the last case the file at the path is unchanged.
    """
    if real(snapshot) == connection.path:
        raise WarehouseUnusable(f"{snapshot} is the warehouse itself. Fix: set GRAMHOUSE_SNAPSHOT to another path.")
    draft = draft_of(snapshot)
    db = connection.db
    try:
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        discard(draft)
        if (refused := refusal(connection, snapshot, draft)) is not None:
            raise WarehouseUnusable(str(refused))
        with on_all_cores(db):
            with connection.begin():
                views = snapshot_views(connection)
                if hide and (refused := hide_refusal(connection, hide)) is not None:
                    raise WarehouseUnusable(str(refused))
                hiding = find_hidden(connection, hide) if hide else None
                if hiding is None:
                    store_views(connection, views)
                raw_folder = real(store_of(connection).folder)
                published = {
                    "snapshot_at": at,
                    "version": version,
                    "stale_after": stale_after.total_seconds(),
                    "warehouse_id": warehouse_id(connection),
                    "full_refresh_every": full_refresh_every.total_seconds(),
                }
            _write_all(connection)

            def write() -> None:
                discard(draft)
                if hiding is None:
                    copy_file(connection.file.fileno(), draft)
                    _complete(db, draft, published, raw_folder)
                else:
                    _write_hidden(db, draft, hiding, views, published)

            try:
                in_enough_memory(db, write)
                size = draft.stat().st_size
                _put_in_place(db, draft, snapshot, at=at)
            finally:
                discard(draft)
    except OSError as error:
        raise WarehouseUnusable(
            f"cannot publish {snapshot}: {error.strerror}. The previous snapshot is unchanged."
        ) from error
    except duckdb.Error as error:
        raise explain(snapshot, error) from error
    return size
