"""The tables of a warehouse file: created, upgraded, or refused."""

from collections.abc import Callable
from pathlib import Path

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.declared import create_table
from connectors.warehouse.storage.errors import WarehouseUnusable, first_line
from connectors.warehouse.storage.migrations import revisions
from connectors.warehouse.storage.quoting import literal
from models.tables import METADATA

# The table of a snapshot, and of one that 0.2.0 published.
_SNAPSHOTS_OWN = {"core.published", "main.published"}


def _present(db: DuckDBPyConnection) -> set[str]:
    return {row[0] for row in db.execute("SELECT schema_name || '.' || table_name FROM duckdb_tables()").fetchall()}


def read_revision(db: DuckDBPyConnection, path: Path) -> str | None:
    """Return the revision of the warehouse's tables; None if there are no tables.

    Raises WarehouseUnusable when the file is not a warehouse, or when this version cannot upgrade it.
    """
    present = _present(db)
    if not present:
        return None
    if revisions.TABLE not in present:
        # A snapshot contains tables of a warehouse too.
        if not present.isdisjoint(METADATA.tables) and present.isdisjoint(_SNAPSHOTS_OWN):
            raise _too_old(path)
        raise WarehouseUnusable(
            f"{path} cannot be used: it is a DuckDB file, but not one that gramhouse wrote as its warehouse"
            f" (it holds {min(present - METADATA.tables.keys())}). Fix: set GRAMHOUSE_WAREHOUSE to another file."
        )
    revision = revisions.read(db)
    if not revision:
        raise WarehouseUnusable(
            f"{path} cannot be used: {revisions.TABLE} should contain one row, its revision. Fix: restore a backup."
        )
    if revision < revisions.REVISIONS[0]:
        raise _too_old(path)
    if revision not in revisions.REVISIONS:
        raise WarehouseUnusable(
            f"{path} cannot be used: it was written by a newer gramhouse (revision {revision};"
            f" this one knows up to {revisions.HEAD}). Fix: upgrade gramhouse."
        )
    return revision


def _too_old(path: Path) -> WarehouseUnusable:
    return WarehouseUnusable(
        f"{path} cannot be used: it was written by a gramhouse before 0.2.0, and only 0.2.0 can upgrade it."
        " Fix: run `gramhouse publish` of gramhouse 0.2.0 once, then use this version."
    )


def prepare_tables(connection: Connection, new_id: Callable[[], str]) -> None:
    """Create the tables of a new file or upgrade those of an older one, in one transaction.

    `new_id` generates the id of a new warehouse. Raises WarehouseUnusable, and what `read_revision` raises; the file is
    then unchanged.
    """
    db, path, written = connection.db, connection.path, None
    try:
        with connection.begin():
            written = read_revision(db, path)
            if written is None:
                revisions.stamp(db, revisions.HEAD)
            elif written != revisions.HEAD:
                _upgrade(db)
            _create(db, _present(db))
            if not value(db, "SELECT EXISTS (FROM ops.warehouse)"):
                db.execute(f"INSERT INTO ops.warehouse VALUES ({literal(new_id())}, 0, NULL, 0, [])")  # noqa: S608 - quoted
    except WarehouseUnusable:
        raise
    except Exception as error:
        if written in {None, revisions.HEAD}:
            raise
        raise WarehouseUnusable(
            f"{path} cannot be upgraded from revision {written} to {revisions.HEAD} and is unchanged:"
            f" {first_line(error)}. Fix: correct this and retry, or keep using the version that wrote it."
        ) from error


def _upgrade(db: DuckDBPyConnection) -> None:
    # Imported here, because importing Alembic takes longer than opening a file of the current revision.
    from connectors.warehouse.storage.migrations.upgrade import upgrade  # noqa: PLC0415

    upgrade(db, revisions.HEAD)


def _create(db: DuckDBPyConnection, present: set[str]) -> None:
    missing = [table for name, table in METADATA.tables.items() if name not in present]
    schemas = sorted({str(table.schema) for table in missing})
    texts = [f"CREATE SCHEMA IF NOT EXISTS {schema}" for schema in schemas] + [create_table(table) for table in missing]
    if texts:
        # In one call: it takes half of the time.
        db.execute(";\n".join(texts))
