"""The snapshot: written whole beside the old one and renamed into its place, so no reader ever waits."""

import os
from datetime import datetime
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection
from sqlalchemy import Connection, Dialect
from sqlalchemy.schema import CreateTable

from connectors.warehouse.connection import duck, explain
from connectors.warehouse.errors import WarehouseUnusable
from models.tables import SNAPSHOT
from models.views import views

_NEXT = "next_snapshot"

# One SELECT over the warehouse per table of the snapshot, in the order in which it is read.
_CONTENTS = {
    "accounts": """
SELECT
    account_id, ig_username, public_id, status,
    CASE WHEN status = 'token_expired' THEN status_since END AS token_expired_since,
    first_seen_at, last_seen_at, removed_at
FROM core.accounts ORDER BY account_id
""",
    "account_status_history": """
SELECT account_id, status, valid_from, valid_to FROM core.account_status_history ORDER BY account_id, valid_from
""",
    # What is still there was seen by the last complete walk, unless its absence awaits confirmation.
    "media": """
SELECT
    m.* EXCLUDE (digest, content_digest, written_at), a.ig_username,
    CASE
        WHEN m.removed_at IS NOT NULL THEN m.written_at
        ELSE coalesce(p.last_seen_at, greatest(m.written_at, w.complete_at))
    END AS last_seen_at
FROM core.media AS m
LEFT JOIN core.accounts AS a USING (account_id)
LEFT JOIN core.walks AS w ON w.resource = 'media' AND w.account_id = m.account_id AND w.surface = m.surface
LEFT JOIN ops.missing AS p
    ON p.account_id = m.account_id AND p.surface = m.surface AND p.media_id = m.media_id
ORDER BY m.account_id, m.surface, m.published_at DESC, m.media_id
""",
    "media_superseded": "SELECT * FROM core.media_superseded ORDER BY account_id, surface, media_id, valid_from",
    "media_metrics": "SELECT * FROM core.media_metrics ORDER BY account_id, surface, media_id, metric, observed_at",
    "media_children": "SELECT * FROM core.media_children ORDER BY account_id, surface, media_id, position",
    "fields": "SELECT * EXCLUDE (ordinal, kinds) FROM core.fields ORDER BY resource, path",
    "quarantine": "SELECT * FROM core.quarantine ORDER BY seen_at",
    "runs": "SELECT * EXCLUDE (published_at) FROM core.runs ORDER BY started_at",
    "run_outcomes": "SELECT * FROM core.run_outcomes ORDER BY started_at",
    "walks": "SELECT resource, account_id, surface, complete_at FROM core.walks ORDER BY account_id, surface",
}


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _fill(db: DuckDBPyConnection, dialect: Dialect, *, at: datetime, version: str) -> None:
    for table in SNAPSHOT.sorted_tables:
        ddl = str(CreateTable(table).compile(dialect=dialect)).strip()
        name = f"{_NEXT}.main.{table.name}"
        db.execute(ddl.replace(f"CREATE TABLE {table.name}", f"CREATE TABLE {name}", 1))
        db.execute(f"COMMENT ON TABLE {name} IS {_literal(table.comment or '')}")
        for column in table.columns:
            db.execute(f"COMMENT ON COLUMN {name}.{column.name} IS {_literal(column.comment or '')}")
        if table.name in _CONTENTS:
            db.execute(f"INSERT INTO {name} BY NAME {_CONTENTS[table.name]}")
    db.execute(f"INSERT INTO {_NEXT}.main.published VALUES (?, ?)", (at, version))  # noqa: S608


def _make_views(db: DuckDBPyConnection) -> None:
    # A view's query names no database, so it must be made while the snapshot is the database in use.
    db.execute(f"USE {_NEXT}")
    for view in views():
        db.execute(f"CREATE VIEW {view.name} AS {view.select}")
        db.execute(f"COMMENT ON VIEW {view.name} IS {_literal(view.comment)}")


def _write(db: DuckDBPyConnection, dialect: Dialect, draft: Path, *, at: datetime, version: str) -> None:
    (home,) = db.execute("SELECT current_database()").fetchall()[0]
    db.execute(f"ATTACH {_literal(str(draft))} AS {_NEXT}")
    try:
        db.begin()
        try:
            _fill(db, dialect, at=at, version=version)
            _make_views(db)
        except BaseException:
            db.rollback()
            raise
        db.commit()
        db.execute(f"CHECKPOINT {_NEXT}")
    finally:
        db.execute("USE " + '"' + home.replace('"', '""') + '"')
        db.execute(f"DETACH {_NEXT}")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
        _write(duck(connection), connection.dialect, draft, at=at, version=version)
        _sync(draft)
        size = draft.stat().st_size
        draft.replace(snapshot)
        _sync(snapshot.parent)
    except OSError as error:
        message = f"cannot publish {snapshot}: {error.strerror}. The last snapshot stays as it was."
        raise WarehouseUnusable(message) from error
    except duckdb.Error as error:
        raise explain(snapshot, error) from error
    return size
