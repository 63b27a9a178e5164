"""The draft of a snapshot: a copy of the warehouse file in which views replace the internal tables."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection
from sqlalchemy import Connection, Dialect
from sqlalchemy.schema import CreateTable

from connectors.warehouse.raw.listed import list_statements
from connectors.warehouse.snapshot.contents import (
    GAPS,
    GAPS_SELECT,
    LOOKUP,
    LOOKUP_SELECT,
    MISSING,
    MISSING_SELECT,
    Relation,
)
from connectors.warehouse.storage.connection import attach_copy, raw_connection, value
from connectors.warehouse.storage.quoting import literal, quoted
from models.tables import SNAPSHOT
from models.views import views

_DRAFT = "next_snapshot"


@contextmanager
def _opened(db: DuckDBPyConnection, draft: Path) -> Iterator[None]:
    """Attach the draft as the current database, in a transaction that is committed if the block succeeds.

    Queries of views do not name their database, so the views must be created while the draft is the current one.
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


def _comment(kind: str, name: str, comment: str, columns: Mapping[str, str]) -> Iterator[str]:
    yield f"COMMENT ON {kind} main.{quoted(name)} IS {literal(comment)}"
    for column, text in columns.items():
        yield f"COMMENT ON COLUMN main.{quoted(name)}.{quoted(column)} IS {literal(text)}"


def _clearing(db: DuckDBPyConnection, raw_folder: Path) -> Iterator[str]:
    """Yield the statements that copy what the views need from the control tables, then drop these tables."""
    yield f"CREATE TABLE {LOOKUP} AS {LOOKUP_SELECT}"
    yield f"CREATE TABLE {GAPS} AS {GAPS_SELECT}"
    if value(db, "SELECT EXISTS (FROM ops.missing)"):
        yield f"CREATE TABLE {MISSING} AS {MISSING_SELECT}"
    yield from list_statements(raw_folder)
    yield "DROP SCHEMA ops CASCADE"


def _signing(dialect: Dialect, signature: Signature) -> Iterator[str]:
    # Without parameters: for the first one in a process DuckDB imports numpy, which takes longer than the statements.
    table = SNAPSHOT.tables["published"]
    values = {
        "snapshot_at": f"TIMESTAMPTZ {literal(signature.at.isoformat())}",
        "version": literal(signature.version),
        "stale_after": str(signature.stale_after.total_seconds()),
        "full_refresh_every": str(signature.full_refresh_every.total_seconds()),
        "warehouse_id": literal(signature.warehouse_id),
    }
    yield str(CreateTable(table).compile(dialect=dialect))
    yield f"INSERT INTO main.published VALUES ({', '.join(values[column.name] for column in table.columns)})"  # noqa: S608
    yield from _comment("TABLE", table.name, table.comment or "", {c.name: c.comment or "" for c in table.columns})


def complete(connection: Connection, draft: Path, relations: Sequence[Relation], signature: Signature) -> None:
    """Turn a copy of the warehouse file into a snapshot. Call it outside of a transaction. Raises duckdb.Error."""
    db = raw_connection(connection)
    with _opened(db, draft):
        statements = [*_clearing(db, signature.raw_folder), *_signing(connection.dialect, signature)]
        for relation in relations:
            statements.append(f"CREATE VIEW main.{quoted(relation.name)} AS {relation.select}")
            statements += _comment("VIEW", relation.name, relation.comment, relation.columns)
        for view in views():
            statements.append(f"CREATE VIEW main.{view.name} AS {view.select}")
            statements += _comment("VIEW", view.name, view.comment, view.columns)
        # In one call: hundreds of small statements took twice as long one by one.
        db.execute(";\n".join(statements))
