"""A snapshot with values that are hard to export, to be read by other libraries and other DuckDB versions."""

import math
from datetime import UTC, date
from pathlib import Path
from typing import Any

import duckdb

from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.sql import literal
from models.feeds import media
from models.views import views
from tests.dictionary import is_stored
from tests.warehouse.days import BEN, POSTS, STORIES, Days, account

Rows = list[dict[str, Any]]

# Columns that depend on the reader's clock.
AGES = ("stale_for", "age_seconds", "is_stale")

CAPTIONS = (
    'it\'s "quoted", with a , and a ; and a \\ in it',
    "naïve, 日本語, עברית, 🎈, e\u0301",
    "two\nlines\r\nand\ta tab",
    "",
    "NULL",
    None,
)

# Columns and tables like those of discovered fields, created here so that every type occurs.
_ODD = '"hand ""odd"", name"'
_BY_HAND = (
    f"ALTER TABLE core.media ADD COLUMN {_ODD} VARCHAR[]",
    f"""UPDATE core.media SET {_ODD} = ['a', NULL, 'it''s "b"'] WHERE media_id IN ('1', '9')""",
    f"UPDATE core.media SET {_ODD} = [] WHERE media_id = '2'",
    """
CREATE TABLE media_hand AS
SELECT
    account_id, surface, media_id, 0::INTEGER AS position, [1, NULL]::BIGINT[] AS wholes, [0.5]::DOUBLE[] AS parts,
    [true, false] AS flags, [published_at] AS instants, like_count > 1 AS flag
FROM media ORDER BY ALL
""",
    "COMMENT ON TABLE media_hand IS 'Made by hand; it''s a child table.'",
    "COMMENT ON COLUMN media_hand.flag IS 'Liked.'",
)


def _shown(db: duckdb.DuckDBPyConnection, column: str) -> None:
    """Add a column of its table to the end of the view media."""
    ((sql,),) = db.execute("SELECT sql FROM duckdb_views() WHERE view_name = 'media'").fetchall()
    db.execute(sql.replace("CREATE VIEW", "CREATE OR REPLACE VIEW").replace(" FROM ", f", {column} FROM ", 1))
    media = views()["media"]
    comments = {"VIEW media": media.comment, **{f"COLUMN media.{name}": text for name, text in media.columns.items()}}
    for what, comment in comments.items():
        db.execute(f"COMMENT ON {what} IS {literal(comment)}")


def as_tables(db: duckdb.DuckDBPyConnection) -> None:
    """Replace the public views by tables, so that a test can write to them."""
    for name in [name for name, view in views().items() if is_stored(view)]:
        db.execute(f"CREATE TABLE made AS FROM {name}; DROP VIEW {name}; ALTER TABLE made RENAME TO {name}")


def make_snapshot(days: Days, snapshot: Path) -> None:
    """Publish a snapshot with these values, and change it by hand."""
    days.catalogue(0, [account(), account(BEN, name="ben\u00e9", status="token_expired")])
    posts = [
        {"id": str(n), "caption": caption, "timestamp": f"2026-01-0{n + 1}T12:00:00.5+02:00", "like_count": n or None}
        for n, caption in enumerate(CAPTIONS)
    ]
    days.scan(POSTS, 1, posts)
    days.scan(STORIES, 1, [{"id": "9", "media_type": "IMAGE", "like_count": 2**62}])
    days.scan(media(BEN, "posts"), 2, [{"id": "1"}, {"caption": "no id"}])
    days.publish(snapshot, 3)
    snapshot.chmod(0o644)
    with duckdb.connect(str(snapshot)) as db:
        for statement in _BY_HAND:
            db.execute(statement)
        _shown(db, _ODD)


def _plain(value: Any) -> Any:  # noqa: ANN401 - a value is anything
    """Return a library's value in a common form: a list for an array, None for NaN and NaT."""
    if isinstance(value, str) or value is None:
        return value
    if hasattr(value, "tolist") and getattr(value, "ndim", False):
        # Arrays of times have no zone; ours are all UTC.
        times = value.dtype.kind == "M"
        value = [moment.replace(tzinfo=UTC) if times and moment else moment for moment in value.tolist()]
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    # NaT and NA do not equal themselves.
    return value if value == value else None


def _rank(value: object) -> str:
    # An integer column with NULL is a float column in some libraries; elsewhere it must be an integer.
    if isinstance(value, int | float):
        return f"{float(value):.12g}"
    return str(value)[:19] if isinstance(value, date) else value if isinstance(value, str) else ""


def plain(rows: Rows) -> Rows:
    """Return rows in a form that does not depend on the library: plain values, sorted."""
    found = [{str(name): _plain(value) for name, value in sorted(row.items())} for row in rows]
    return sorted(found, key=lambda row: [_rank(value) for value in row.values()])


def snapshot_rows(snapshot: Path) -> dict[str, Rows]:
    """Return the rows of each table and view of the snapshot, without columns that depend on the clock."""
    with open_snapshot(snapshot) as opened:
        here = "FROM duckdb_columns() WHERE schema_name = 'main' AND NOT internal"
        names = [
            str(name) for (name,) in opened.db.execute(f"SELECT DISTINCT table_name {here} ORDER BY ALL").fetchall()
        ]
        ages = {"freshness": f" EXCLUDE ({', '.join(AGES)})"}
        return {name: plain(opened.query(f'SELECT *{ages.get(name, "")} FROM "{name}"')) for name in names}
