"""A snapshot with values that are hard to export, and its export, to be read by other libraries and DuckDB versions.

Part of `make long`: `python -m tests.warehouse.compat make FOLDER` writes them with one DuckDB, and `check` reads them
with another.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa

from connectors.warehouse.queries.export import export
from connectors.warehouse.queries.reader import open_snapshot
from models.feeds import CATALOGUE, media
from models.views import views
from tests.warehouse.rig import BEN, POSTS, STORIES, Rig, account, opened

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

# A table in which every type occurs.
_BY_HAND = """
CREATE TABLE media_hand AS
SELECT
    account_id, surface, media_id, 0::INTEGER AS position, [1, NULL]::BIGINT[] AS wholes, [0.5]::DOUBLE[] AS parts,
    [true, false] AS flags, [published_at] AS instants, like_count > 1 AS flag,
    if(media_id = '2', [], ['a', NULL, 'it''s "b"']) AS "hand ""odd"", name"
FROM media ORDER BY ALL;
COMMENT ON TABLE media_hand IS 'Made by hand; it''s a child table.';
COMMENT ON COLUMN media_hand.flag IS 'Liked.'
"""


def make_snapshot(rig: Rig, snapshot: Path) -> None:
    """Publish a snapshot with these values, and change it by hand."""
    rig.scan(CATALOGUE, 0, [account(), account(BEN, name="ben\u00e9", status="token_expired")])
    posts = [
        {"id": str(n), "caption": caption, "timestamp": f"2026-01-0{n + 1}T12:00:00.5+02:00", "like_count": n or None}
        for n, caption in enumerate(CAPTIONS)
    ]
    rig.scan(POSTS, 1, posts)
    rig.scan(STORIES, 1, [{"id": "9", "media_type": "IMAGE", "like_count": 2**62}])
    rig.scan(media(BEN, "posts"), 2, [{"id": "1"}, {"caption": "no id"}])
    rig.publish(snapshot, 3)
    snapshot.chmod(0o644)
    with duckdb.connect(str(snapshot)) as db:
        db.execute(_BY_HAND)


def rows_of(table: pa.Table) -> Rows:
    """Return the rows of a table in one order, without columns that depend on the clock."""
    kept = [name for name in sorted(table.column_names) if name not in AGES]
    return sorted(table.select(kept).to_pylist(), key=repr)


def snapshot_rows(snapshot: Path) -> dict[str, Rows]:
    """Return the rows of each table and view of the snapshot."""
    with open_snapshot(snapshot) as opened:
        names = [each["name"] for each in opened.relations() if each["kind"] != "macro"]
        return {name: rows_of(opened.db.execute(f'FROM "{name}"').to_arrow_table()) for name in names}


def make(folder: Path) -> None:
    """Write a snapshot, its export, and the rows that this DuckDB reads."""
    snapshot = folder / "analytics.duckdb"
    with TemporaryDirectory() as home, opened(Path(home)) as rig:
        make_snapshot(rig, snapshot)
    export(snapshot, folder / "export")
    truth = {"duckdb": duckdb.__version__, "rows": snapshot_rows(snapshot)}
    (folder / "truth.json").write_text(json.dumps(truth, default=str))


def check(folder: Path) -> None:
    """Compare the rows that this DuckDB reads with those of the other; raise AssertionError if they differ."""
    truth = json.loads((folder / "truth.json").read_text())
    assert truth["duckdb"] != duckdb.__version__, "both are the same DuckDB"
    assert views().keys() < truth["rows"].keys()
    with duckdb.connect(config={"TimeZone": "UTC"}) as db:
        files = {table: str(folder / "export" / f"{table}.parquet") for table in truth["rows"]}
        exported = {
            table: rows_of(db.execute("FROM read_parquet(?)", [file]).to_arrow_table()) for table, file in files.items()
        }
    for rows in (snapshot_rows(folder / "analytics.duckdb"), exported):
        assert json.loads(json.dumps(rows, default=str)) == truth["rows"]


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](Path(sys.argv[2]))
