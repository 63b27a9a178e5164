"""The snapshot: written beside the old one and renamed into its place, so no reader ever waits."""

import logging
import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection
from sqlalchemy import Connection

from connectors.warehouse.connection import duck, explain, first_line
from connectors.warehouse.contents import SnapshotTable, snapshot_tables
from connectors.warehouse.draft import DRAFT, Signature, attached, dress, fill, make_tables, sign
from connectors.warehouse.durable import discard, sync
from connectors.warehouse.errors import WarehouseUnusable
from connectors.warehouse.limits import in_enough_memory, on_all_cores
from connectors.warehouse.renewal import MustBeWhole, renew
from models.freshness import STALE_AFTER

_log = logging.getLogger(__name__)


def _renewed(
    db: DuckDBPyConnection, tables: Sequence[SnapshotTable], snapshot: Path, draft: Path, signature: Signature
) -> bool:
    """Say whether the draft could be made of the last snapshot."""
    # Whatever else lies in its place is not read: it may be a pipe, or another's file behind a link.
    if snapshot.is_symlink() or not snapshot.is_file():
        return False
    discard(draft)
    shutil.copyfile(snapshot, draft)
    try:
        with attached(db, draft):
            renew(db, tables, signature.version)
            sign(db, signature)
    except MustBeWhole as reason:
        _log.info("The snapshot is written whole: %s", reason)
    except duckdb.Error as error:
        _log.warning("The last snapshot is no use any more, and is written whole: %s", first_line(error))
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


def publish(
    connection: Connection, snapshot: Path, *, at: datetime, version: str, stale_after: timedelta = STALE_AFTER
) -> int:
    """Write a new snapshot of what is folded and put it in the old one's place; return its size in bytes.

    Where the old one differs little it is copied and the copy brought up to date; what it shows is the same. Whoever
    has the old one open keeps it until they open the file again. The connection must be in no transaction. Raises
    WarehouseUnusable when the folder cannot be written or the disk is full; the old snapshot stays as it was.
    """
    draft = snapshot.with_name(f".{snapshot.name}.next")
    signature = Signature(at, version, stale_after)
    try:
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        with connection.begin():
            tables = snapshot_tables(connection, f"{DRAFT}.main")
        db = duck(connection)
        # In no transaction: nobody writes meanwhile, and until it is renamed nobody reads it.
        with on_all_cores(db):
            if not _renewed(db, tables, snapshot, draft, signature):
                in_enough_memory(db, lambda: _write(db, tables, draft, signature))
        sync(draft)
        size = draft.stat().st_size
        draft.replace(snapshot)
        sync(snapshot.parent)
    except OSError as error:
        message = f"cannot publish {snapshot}: {error.strerror}. The last snapshot stays as it was."
        raise WarehouseUnusable(message) from error
    except duckdb.Error as error:
        raise explain(snapshot, error) from error
    return size
