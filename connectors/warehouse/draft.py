"""A snapshot's draft: its tables, columns, comments and views, and how they are filled."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from duckdb import DuckDBPyConnection

from connectors.warehouse.connection import attach_draft, value
from connectors.warehouse.contents import SnapshotColumn, SnapshotTable
from connectors.warehouse.quoting import literal, quoted
from connectors.warehouse.slices import slices
from models.tables.columns import packing
from models.views import views

DRAFT = "next_snapshot"

_MANY_ROWS = 50_000

# So many rows are sorted in the memory that a run has; of more, whole accounts are one after the other.
_SORTED_AT_ONCE = 1_200_000


@contextmanager
def attached(db: DuckDBPyConnection, draft: Path) -> Iterator[None]:
    """Have the draft's file attached under the name DRAFT; what was done is in the file when the block ends well."""
    attach_draft(db, draft, DRAFT)
    try:
        yield
        db.execute(f"CHECKPOINT {DRAFT}")
    finally:
        db.execute(f"DETACH {DRAFT}")


def name_of(table: SnapshotTable) -> str:
    """Return a table's name in the draft, quoted."""
    return f"{DRAFT}.main.{quoted(table.name)}"


def _declaration(column: SnapshotColumn) -> str:
    return f"{quoted(column.name)} {column.type}{packing(column.name)}{'' if column.nullable else ' NOT NULL'}"


def _make_views(db: DuckDBPyConnection) -> None:
    # A view's query names no database, so it must be made while the snapshot is the database in use.
    home = value(db, "SELECT current_database()")
    db.execute(f"USE {DRAFT}")
    try:
        for view in views():
            db.execute(f"CREATE OR REPLACE VIEW {view.name} AS {view.select}")
            db.execute(f"COMMENT ON VIEW {view.name} IS {literal(view.comment)}")
            for column, comment in view.columns.items():
                db.execute(f"COMMENT ON COLUMN {view.name}.{column} IS {literal(comment)}")
    finally:
        db.execute(f"USE {quoted(home)}")


def make_tables(db: DuckDBPyConnection, database: str, tables: Sequence[SnapshotTable]) -> None:
    """Make a snapshot's tables, without a row, in an attached database that has none."""
    for table in tables:
        columns = ", ".join(map(_declaration, table.columns))
        db.execute(f"CREATE TABLE {database}.main.{quoted(table.name)} ({columns})")


def dress(db: DuckDBPyConnection, tables: Sequence[SnapshotTable]) -> None:
    """Give the draft's tables their comments, and make its views: whatever it had of either goes."""
    for table in tables:
        db.execute(f"COMMENT ON TABLE {name_of(table)} IS {literal(table.comment)}")
        for column in table.columns:
            db.execute(f"COMMENT ON COLUMN {name_of(table)}.{quoted(column.name)} IS {literal(column.comment)}")
    _make_views(db)


def fill(db: DuckDBPyConnection, table: SnapshotTable) -> None:
    """Write all rows of a table into the draft's, which has none, in their order."""
    if table.select is None:
        return
    queries = [table.select]
    if (table.order or "").startswith("account_id,"):
        shares = slices(db, table.select, _SORTED_AT_ONCE)
        queries = [f"SELECT * FROM ({table.select}) WHERE {share}" for share in shares]  # noqa: S608
    for query in queries:
        ((rows,),) = db.execute(f"INSERT INTO {name_of(table)} BY NAME {table.sorted(query)}").fetchall()
        if rows >= _MANY_ROWS:
            # Into the file with them, before the next ones: until then they are in memory.
            db.execute(f"CHECKPOINT {DRAFT}")


@dataclass(frozen=True, slots=True)
class Signature:
    """What a snapshot states about itself: when and by which version it was made, of which warehouse."""

    at: datetime
    version: str
    stale_after: timedelta
    warehouse_id: str | None


def sign(db: DuckDBPyConnection, signature: Signature) -> None:
    """Write the signature into the draft, in place of the last one."""
    db.execute(f"DELETE FROM {DRAFT}.main.published")  # noqa: S608
    # No parameters: for the first that it is given in a process, DuckDB imports numpy, which takes longer than this.
    at, version = literal(signature.at.isoformat()), literal(signature.version)
    warehouse_id = "NULL" if signature.warehouse_id is None else literal(signature.warehouse_id)
    row = f"(TIMESTAMPTZ {at}, {version}, {signature.stale_after.total_seconds()}, {warehouse_id})"
    db.execute(f"INSERT INTO {DRAFT}.main.published VALUES {row}")  # noqa: S608
