"""The snapshot: written beside the old one and renamed into its place, so no reader ever waits."""

import logging
import os
import shutil
import stat
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection
from sqlalchemy import Connection

from connectors.warehouse.connection import duck, explain, first_line
from connectors.warehouse.contents import SnapshotTable, snapshot_tables
from connectors.warehouse.draft import DRAFT, Signature, attached, dress, fill, make_tables, sign
from connectors.warehouse.durable import discard, logs, sync
from connectors.warehouse.errors import WarehouseUnusable
from connectors.warehouse.limits import in_enough_memory, on_all_cores
from connectors.warehouse.ownership import OtherSnapshot, check_owner, is_catalogued, warehouse_id
from connectors.warehouse.quoting import literal
from connectors.warehouse.renewal import MustBeWhole, renew
from models.freshness import STALE_AFTER

_log = logging.getLogger(__name__)

_PUBLISHED = "published_snapshot"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _renewed(
    db: DuckDBPyConnection,
    tables: Sequence[SnapshotTable],
    snapshot: Path,
    draft: Path,
    signature: Signature,
    *,
    catalogued: bool,
) -> bool:
    """Say whether the draft could be made of the last snapshot. Raises OtherSnapshot."""
    # Whatever else lies in its place is not read: it may be a pipe, or another's file behind a link.
    if snapshot.is_symlink() or not snapshot.is_file() or not os.access(snapshot, os.R_OK):
        return False
    discard(draft)
    shutil.copyfile(snapshot, draft)
    # Read after the copy: a program that changes the file while it is copied moves it, too.
    modified = snapshot.stat().st_mtime_ns // 1000
    try:
        with attached(db, draft):
            check_owner(db, snapshot, signature.warehouse_id, catalogued=catalogued)
            renew(db, tables, signature.version, modified)
            sign(db, signature)
    except MustBeWhole as reason:
        _log.info("The snapshot is written whole: %s", reason)
    except duckdb.Error as error:
        _log.warning("The last snapshot is no use any more, and is written whole: %s", first_line(error))
    except OtherSnapshot:
        discard(draft)
        raise
    else:
        return True
    return False


def _write(db: DuckDBPyConnection, tables: Sequence[SnapshotTable], draft: Path, signature: Signature) -> None:
    discard(draft)
    with attached(db, draft):
        make_tables(db, DRAFT, tables)
        dress(db, tables)
        for table in tables:
            fill(db, table)
        sign(db, signature)


def _remove_logs(snapshot: Path) -> None:
    """Remove the logs of a program that opened the snapshot for writing: DuckDB would replay them into the new one."""
    for log in logs(snapshot):
        log.unlink(missing_ok=True)
        _log.warning(
            "Removed %s: a program had opened the snapshot for writing, and its changes are lost."
            " Fix: open the snapshot read-only.",
            log,
        )


def _check(db: DuckDBPyConnection, snapshot: Path) -> None:
    """Read the snapshot in its place, as a reader would. Raises WarehouseUnusable when it is not what was written."""
    fix = f"Fix: close the program that has {snapshot.name} open for writing, then run `gramhouse publish`."
    try:
        db.execute(f"ATTACH {literal(str(snapshot))} AS {_PUBLISHED} (READ_ONLY)")
        try:
            db.execute(f"FROM {_PUBLISHED}.main.published").fetchall()
        finally:
            db.execute(f"DETACH {_PUBLISHED}")
    except duckdb.Error as error:
        message = f"{snapshot} was published but cannot be read: {first_line(error).rstrip('.')}. {fix}"
        raise WarehouseUnusable(message) from error
    if left := logs(snapshot):
        message = (
            f"{snapshot} was published, but another program writes to {left[0].name}: readers see its changes. {fix}"
        )
        raise WarehouseUnusable(message)


def _put_in_place(db: DuckDBPyConnection, draft: Path, snapshot: Path, *, at: datetime) -> None:
    """Rename the draft into the snapshot's place, without write permission and without a log of the old one."""
    draft.chmod(stat.S_IMODE(draft.stat().st_mode) & ~0o222)
    # The time it says it was published: the next run takes any other for a file that was altered since.
    modified = (at - _EPOCH) // timedelta(microseconds=1) * 1000
    os.utime(draft, ns=(modified, modified))
    sync(draft)
    _remove_logs(snapshot)
    draft.replace(snapshot)
    _remove_logs(snapshot)
    sync(snapshot.parent)
    _check(db, snapshot)


def draft_of(snapshot: Path) -> Path:
    """Return the path at which a snapshot is written before it is renamed into its place."""
    return snapshot.with_name(f".{snapshot.name}.next")


def publish(
    connection: Connection, snapshot: Path, *, at: datetime, version: str, stale_after: timedelta = STALE_AFTER
) -> int:
    """Write a new snapshot of what is folded and put it in the old one's place; return its size in bytes.

    Where the old one differs little it is copied and the copy brought up to date; what it shows is the same. Whoever
    has the old one open keeps it until they open the file again. The connection must be in no transaction. Raises
    WarehouseUnusable when the folder cannot be written or the disk is full (the old snapshot stays as it was), and
    when the new one, in its place, cannot be read as it was written. So it does when the old one is of another
    warehouse, unless this one has completed a scan of the account catalogue.
    """
    draft = draft_of(snapshot)
    try:
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        with connection.begin():
            tables = snapshot_tables(connection, f"{DRAFT}.main")
            signature = Signature(at, version, stale_after, warehouse_id(connection))
            catalogued = is_catalogued(connection)
        db = duck(connection)
        # In no transaction: nobody writes meanwhile, and until it is renamed nobody reads it.
        with on_all_cores(db):
            if not _renewed(db, tables, snapshot, draft, signature, catalogued=catalogued):
                in_enough_memory(db, lambda: _write(db, tables, draft, signature))
        size = draft.stat().st_size
        _put_in_place(db, draft, snapshot, at=at)
    except OSError as error:
        message = f"cannot publish {snapshot}: {error.strerror}. The last snapshot stays as it was."
        raise WarehouseUnusable(message) from error
    except OtherSnapshot as error:
        raise WarehouseUnusable(str(error)) from error
    except duckdb.Error as error:
        raise explain(snapshot, error) from error
    return size
