"""The draft of a snapshot: a copy of the warehouse file without the internal tables, or a new file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.raw.listed import list_statements
from connectors.warehouse.snapshot.contents import lookups
from connectors.warehouse.snapshot.hiding import Hiding, core_tables, statements
from connectors.warehouse.storage.connection import attach_copy, attach_draft, value
from connectors.warehouse.storage.quoting import quoted
from models.views import View

_DRAFT = "next_snapshot"


@contextmanager
def _opened(
    db: DuckDBPyConnection, draft: Path, attach: Callable[[DuckDBPyConnection, Path, str], None]
) -> Iterator[str]:
    """Attach the draft as the current database, in a transaction that is committed if the block succeeds.

    The block's statements do not name their database. Yield the name of the database that was current before.
    """
    database = value(db, "SELECT current_database()")
    attach(db, draft, _DRAFT)
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


def complete(db: DuckDBPyConnection, draft: Path, published: Mapping[str, object], raw_folder: Path) -> None:
    """Turn a copy of the warehouse file, with its views, into a snapshot. Call it outside of a transaction.

    It gets tables of what the views need from the control tables, which are dropped. `published` is the row of that
    table, by column. Raises duckdb.Error.
    """
    # Without parameters: for the first one in a process DuckDB imports numpy, which takes longer than the statements.
    statements = [
        *(f"CREATE TABLE {name} AS {select}" for name, select in lookups(published).items()),
        *list_statements(raw_folder),
        "DROP SCHEMA ops CASCADE",
    ]
    with _opened(db, draft, attach_copy):
        db.execute(";\n".join(statements))


def write(
    db: DuckDBPyConnection, draft: Path, hiding: Hiding, views: Sequence[View], published: Mapping[str, object]
) -> None:
    """Write a snapshot with hidden columns to a new file. Call it outside of a transaction. Raises duckdb.Error."""
    tables = core_tables(db)
    with _opened(db, draft, attach_draft) as warehouse:
        db.execute(";\n".join(statements(warehouse, tables, hiding, views, published)))
