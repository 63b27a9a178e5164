"""The draft of a snapshot: a copy of the warehouse file without the internal tables."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.raw.listed import list_statements
from connectors.warehouse.snapshot.contents import LOOKUPS
from connectors.warehouse.snapshot.stored_views import comments
from connectors.warehouse.storage.connection import attach_copy, value
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


def _clearing(raw_folder: Path) -> Iterator[str]:
    """Yield the statements that copy what the views need from the control tables, then drop these tables."""
    for name, select in LOOKUPS.items():
        yield f"CREATE TABLE {name} AS {select}"
    yield from list_statements(raw_folder)
    yield "DROP SCHEMA ops CASCADE"


def _signing(published: Mapping[str, object]) -> Iterator[str]:
    # Without parameters: for the first one in a process DuckDB imports numpy, which takes longer than the statements.
    table = SNAPSHOT["published"]
    values = ", ".join(f"{literal(str(published[column.name]))}::{column.type}" for column in table.columns)
    yield table.create
    yield f"INSERT INTO main.published VALUES ({values})"  # noqa: S608 - quoted
    yield from comments("TABLE", table.name, table.comment, {column.name: column.comment for column in table.columns})


def complete(db: DuckDBPyConnection, draft: Path, published: Mapping[str, object], raw_folder: Path) -> None:
    """Turn a copy of the warehouse file, with its views, into a snapshot. Call it outside of a transaction.

    `published` is the row of that table, by column. Raises duckdb.Error.
    """
    with _opened(db, draft):
        db.execute(";\n".join([*_clearing(raw_folder), *_signing(published)]))
