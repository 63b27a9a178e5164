"""The draft of a snapshot: a copy of the warehouse file without the internal tables."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.raw.listed import list_statements
from connectors.warehouse.snapshot.contents import LOOKUPS
from connectors.warehouse.snapshot.stored_views import comments
from connectors.warehouse.storage.connection import Connection, attach_copy, value
from connectors.warehouse.storage.quoting import literal, quoted
from models.tables import SNAPSHOT

_DRAFT = "next_snapshot"


@contextmanager
def _opened(db: DuckDBPyConnection, draft: Path) -> Iterator[None]:
    """Attach the draft as the current database, in a transaction that is committed if the block succeeds.

    The block's statements do not name their database.
    """
    database = value(db, "SELECT current_database()")
    attach_copy(db, draft, _DRAFT)
    try:
        db.execute(f"USE {_DRAFT}")
        db.execute("BEGIN")
        try:
            yield
            db.execute("COMMIT")
        except BaseException:
            with suppress(duckdb.Error):
                db.execute("ROLLBACK")
            raise
        db.execute(f"CHECKPOINT {_DRAFT}")
    finally:
        db.execute(f"USE {quoted(database)}")
        db.execute(f"DETACH {_DRAFT}")


@dataclass(frozen=True, slots=True)
class Signature:
    """The metadata of a snapshot: when and by which version it was published, its warehouse and its raw store."""

    at: datetime
    version: str
    stale_after: timedelta
    full_refresh_every: timedelta
    warehouse_id: str
    raw_folder: Path


def _clearing(raw_folder: Path) -> Iterator[str]:
    """Yield the statements that copy what the views need from the control tables, then drop these tables."""
    for name, select in LOOKUPS.items():
        yield f"CREATE TABLE {name} AS {select}"
    yield from list_statements(raw_folder)
    yield "DROP SCHEMA ops CASCADE"


def _signing(signature: Signature) -> Iterator[str]:
    # Without parameters: for the first one in a process DuckDB imports numpy, which takes longer than the statements.
    table = SNAPSHOT["published"]
    values = {
        "snapshot_at": f"TIMESTAMPTZ {literal(signature.at.isoformat())}",
        "version": literal(signature.version),
        "stale_after": str(signature.stale_after.total_seconds()),
        "full_refresh_every": str(signature.full_refresh_every.total_seconds()),
        "warehouse_id": literal(signature.warehouse_id),
    }
    yield table.create
    yield f"INSERT INTO main.published VALUES ({', '.join(values[column.name] for column in table.columns)})"  # noqa: S608
    yield from comments("TABLE", table.name, table.comment, {column.name: column.comment for column in table.columns})


def complete(connection: Connection, draft: Path, signature: Signature) -> None:
    """Turn a copy of the warehouse file, with its views, into a snapshot. Call it outside of a transaction.

    Raises duckdb.Error.
    """
    db = connection.db
    with _opened(db, draft):
        db.execute(";\n".join([*_clearing(signature.raw_folder), *_signing(signature)]))
