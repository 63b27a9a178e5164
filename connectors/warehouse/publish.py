"""The snapshot: written whole beside the old one and renamed into its place, so no reader ever waits."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection
from sqlalchemy import Connection

from connectors.warehouse.connection import duck, explain, on_all_cores, value
from connectors.warehouse.contents import SnapshotTable, snapshot_tables
from connectors.warehouse.durable import sync
from connectors.warehouse.errors import WarehouseUnusable
from connectors.warehouse.quoting import literal, quoted
from models.views import views

_NEXT = "next_snapshot"
_MANY_ROWS = 50_000


def _fill(db: DuckDBPyConnection, tables: Sequence[SnapshotTable], *, at: datetime, version: str) -> None:
    for table in tables:
        name = f"{_NEXT}.main.{quoted(table.name)}"
        columns = ", ".join(
            f"{quoted(column.name)} {column.type}{'' if column.nullable else ' NOT NULL'}" for column in table.columns
        )
        db.execute(f"CREATE TABLE {name} ({columns})")
        db.execute(f"COMMENT ON TABLE {name} IS {literal(table.comment)}")
        for column in table.columns:
            db.execute(f"COMMENT ON COLUMN {name}.{quoted(column.name)} IS {literal(column.comment)}")
        if table.select is not None:
            ((rows,),) = db.execute(f"INSERT INTO {name} BY NAME {table.select}").fetchall()
            if rows >= _MANY_ROWS:
                # Into the file with them, before the next table: until then they are in memory.
                db.execute(f"CHECKPOINT {_NEXT}")
    db.execute(f"INSERT INTO {_NEXT}.main.published VALUES (?, ?)", (at, version))  # noqa: S608


def _make_views(db: DuckDBPyConnection) -> None:
    # A view's query names no database, so it must be made while the snapshot is the database in use.
    db.execute(f"USE {_NEXT}")
    for view in views():
        db.execute(f"CREATE VIEW {view.name} AS {view.select}")
        db.execute(f"COMMENT ON VIEW {view.name} IS {literal(view.comment)}")
        for column, comment in view.columns.items():
            db.execute(f"COMMENT ON COLUMN {view.name}.{column} IS {literal(comment)}")


def _write(db: DuckDBPyConnection, tables: Sequence[SnapshotTable], draft: Path, *, at: datetime, version: str) -> None:
    home = value(db, "SELECT current_database()")
    # A draft is whole or it is nothing: a log of how it came about would only be written to be thrown away.
    db.execute(f"ATTACH {literal(str(draft))} AS {_NEXT} (RECOVERY_MODE 'NO_WAL_WRITES')")
    try:
        # In no transaction: nobody writes meanwhile, and until it is renamed nobody reads it.
        _fill(db, tables, at=at, version=version)
        _make_views(db)
        db.execute(f"CHECKPOINT {_NEXT}")
    finally:
        db.execute("USE " + '"' + home.replace('"', '""') + '"')
        db.execute(f"DETACH {_NEXT}")


def publish(connection: Connection, snapshot: Path, *, at: datetime, version: str) -> int:
    """Write a new snapshot of what is folded and put it in the old one's place; return its size in bytes.

    Whoever has the old one open keeps it until they open the file again. The connection must be in no
    transaction. Raises WarehouseUnusable when the folder cannot be written or the disk is full; the old
    snapshot stays as it was.
    """
    draft = snapshot.with_name(f".{snapshot.name}.next")
    try:
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        for left_over in (draft, draft.with_name(draft.name + ".wal")):
            left_over.unlink(missing_ok=True)
        with connection.begin():
            tables = snapshot_tables(connection, f"{_NEXT}.main")
        db = duck(connection)
        with on_all_cores(db):
            _write(db, tables, draft, at=at, version=version)
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
