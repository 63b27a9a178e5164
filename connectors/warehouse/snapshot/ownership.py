"""The warehouse that a snapshot belongs to: an empty warehouse must not replace the snapshot of another one."""

import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.connection import Connection, value, warehouse_id
from connectors.warehouse.storage.durable import discard, logs
from connectors.warehouse.storage.quoting import literal
from models.runs import RunWarning

_log = logging.getLogger(__name__)

# The name under which a snapshot is attached for reading.
PUBLISHED = "published_snapshot"

_IS_CATALOGUED = "SELECT EXISTS (FROM core.completed_scans WHERE resource = 'accounts')"
_HAS_ACCOUNTS = "SELECT EXISTS (FROM core.accounts)"

CODE = "snapshot_of_another_warehouse"
FIX = (
    "check GRAMHOUSE_WAREHOUSE (is its disk mounted?) and GRAMHOUSE_SNAPSHOT; a sync that lists all accounts replaces"
    " the snapshot"
)


class OtherSnapshot(Exception):  # noqa: N818 - a state of the file, not a bug
    """The existing snapshot was published from another warehouse and must not be replaced."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what} Fix: {fix}.")
        self.what = what
        self.fix = fix


def is_catalogued(connection: Connection) -> bool:
    """Return whether this warehouse has ever merged a complete scan of the account catalogue."""
    return bool(value(connection.db, _IS_CATALOGUED))


def _is_of_another(db: DuckDBPyConnection, file: Path, own: str) -> bool:
    """Return whether a snapshot's file was published from another warehouse. Raises duckdb.Error."""
    db.execute(f"ATTACH {literal(str(file))} AS {PUBLISHED} (READ_ONLY)")
    try:
        try:
            ids = db.execute(f"SELECT warehouse_id FROM {PUBLISHED}.main.published").fetchall()  # noqa: S608
        except (duckdb.CatalogException, duckdb.BinderException):
            ids = []
        if ids and ids[0][0] is not None:
            return ids != [(own,)]
        # Older versions did not write the id.
        has_accounts = value(db, f"SELECT EXISTS (FROM {PUBLISHED}.main.accounts)")
        return bool(has_accounts) and not value(db, _HAS_ACCOUNTS)
    finally:
        db.execute(f"DETACH {PUBLISHED}")


def _replaces_another(db: DuckDBPyConnection, snapshot: Path, draft: Path, own: str) -> bool:
    """Return whether the path is the snapshot of another warehouse; a file that cannot be read is not."""
    # Only regular files are read: others may be a pipe, or a link to someone else's file.
    if snapshot.is_symlink() or not snapshot.is_file() or not os.access(snapshot, os.R_OK):
        return False
    if not logs(snapshot):
        with suppress(duckdb.Error):
            return _is_of_another(db, snapshot, own)
    # Another program has opened the file for writing. A copy has neither its lock nor its log.
    try:
        discard(draft)
        shutil.copyfile(snapshot, draft)
        return _is_of_another(db, draft, own)
    except duckdb.Error:
        return False
    finally:
        discard(draft)


def check_owner(connection: Connection, snapshot: Path, draft: Path) -> str:
    """Check that the snapshot may be replaced, and return the warehouse's id.

    `draft` is the path of a temporary copy. The connection must not be in a transaction. Raises OtherSnapshot if the
    snapshot is another warehouse's and this one must not replace it, and OSError.
    """
    with connection.begin():
        own, catalogued = warehouse_id(connection), is_catalogued(connection)
    if _replaces_another(connection.db, snapshot, draft, own):
        if not catalogued:
            message = (
                f"{snapshot} is the snapshot of another warehouse and is not replaced: this warehouse never completed"
                " a scan of the account catalogue."
            )
            raise OtherSnapshot(message, FIX)
        _log.warning("%s was the snapshot of another warehouse; replaced by this warehouse's.", snapshot)
    return own


def refusal(connection: Connection, snapshot: Path, draft: Path) -> RunWarning | None:
    """Return a run's warning if `publish` would refuse to replace the snapshot; None if it would replace it.

    `draft` is the path of a temporary copy. The connection must not be in a transaction. Raises OSError.
    """
    if is_catalogued(connection):
        return None
    try:
        check_owner(connection, snapshot, draft)
    except OtherSnapshot as other:
        return RunWarning(CODE, 1, other.what, f"{other.fix}.", makes_partial=True)
    return None
