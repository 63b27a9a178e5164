"""Whose snapshot a file is: a warehouse that holds nothing yet must not replace the snapshot of another one."""

import logging
import shutil
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection
from sqlalchemy import Connection

from connectors.warehouse.archive import archived
from connectors.warehouse.connection import duck, value
from connectors.warehouse.draft import DRAFT, attached
from connectors.warehouse.durable import discard
from models.ledger import RunWarning

_log = logging.getLogger(__name__)

_IS_CATALOGUED = "SELECT EXISTS (FROM core.walks WHERE resource = 'accounts')"
_HAS_ACCOUNTS = "SELECT EXISTS (FROM core.accounts)"

CODE = "snapshot_of_another_warehouse"
FIX = (
    "check GRAMHOUSE_WAREHOUSE (is its disk mounted?) and GRAMHOUSE_SNAPSHOT; a sync that lists all accounts replaces"
    " the snapshot"
)


class OtherSnapshot(Exception):  # noqa: N818 - a state of the file, not a fault of ours
    """The snapshot in place was published from another warehouse and must not be replaced: what, and the fix."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what} Fix: {fix}.")
        self.what = what
        self.fix = fix


def warehouse_id(connection: Connection) -> str | None:
    """Return the warehouse's id, within a transaction; None before it was opened for writing by `open_warehouse`."""
    state = archived(connection)
    return None if state is None else state.warehouse_id


def is_catalogued(connection: Connection) -> bool:
    """Say whether a scan of the account catalogue was ever completed and merged here."""
    return bool(value(duck(connection), _IS_CATALOGUED))


def _is_of_another(db: DuckDBPyConnection, own: str | None) -> bool:
    """Say whether the attached draft, a copy of the snapshot, was published from another warehouse."""
    try:
        ids = db.execute(f"SELECT warehouse_id FROM {DRAFT}.main.published").fetchall()  # noqa: S608
    except (duckdb.CatalogException, duckdb.BinderException):
        ids = []
    if ids and ids[0][0] is not None:
        return own is not None and ids != [(own,)]
    try:
        # An older version published it, and did not write the id.
        has_accounts = value(db, f"SELECT EXISTS (FROM {DRAFT}.main.accounts)")
    except duckdb.CatalogException:
        return False
    return bool(has_accounts) and not value(db, _HAS_ACCOUNTS)


def check_owner(db: DuckDBPyConnection, snapshot: Path, own: str | None, *, catalogued: bool) -> None:
    """Raise OtherSnapshot if the draft is a copy of another warehouse's snapshot and this one may not replace it."""
    if not _is_of_another(db, own):
        return
    if not catalogued:
        message = (
            f"{snapshot} is the snapshot of another warehouse and stays as it was: this warehouse never completed a"
            " scan of the account catalogue."
        )
        raise OtherSnapshot(message, FIX)
    _log.warning("%s was the snapshot of another warehouse; this warehouse replaces it.", snapshot)


def refusal(connection: Connection, snapshot: Path, draft: Path) -> RunWarning | None:
    """Return why `publish` would refuse to replace the snapshot, as a run's warning; None where it would not.

    `draft` is the path of a temporary copy. The connection must be in no transaction.
    """
    with connection.begin():
        own, catalogued = warehouse_id(connection), is_catalogued(connection)
    if catalogued or snapshot.is_symlink() or not snapshot.is_file():
        return None
    db = duck(connection)
    try:
        discard(draft)
        # A copy: no log that another program left beside the snapshot is read, and none of its locks is in the way.
        shutil.copyfile(snapshot, draft)
        with attached(db, draft):
            check_owner(db, snapshot, own, catalogued=catalogued)
    except OtherSnapshot as other:
        return RunWarning(CODE, 1, other.what, f"{other.fix}.", makes_partial=True)
    except duckdb.Error:
        # What cannot be opened is replaced.
        return None
    finally:
        discard(draft)
    return None
