"""Part of `make long`: a snapshot and its export are written with one DuckDB version and read with another."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from connectors.warehouse.queries.export import export
from models.views import views
from tests.warehouse.days import opened_days
from tests.warehouse.export_fixture import AGES, Rows, make_snapshot, plain, snapshot_rows


def make(folder: Path) -> None:
    """Write a snapshot, its export, and the rows that this DuckDB reads from them."""
    folder.mkdir(parents=True)
    snapshot = folder / "analytics.duckdb"
    with TemporaryDirectory() as home, opened_days(Path(home)) as days:
        make_snapshot(days, snapshot)
    export(snapshot, folder / "export")
    truth = {"duckdb": duckdb.__version__, "rows": snapshot_rows(snapshot)}
    (folder / "truth.json").write_text(json.dumps(truth, default=str))


def check(folder: Path) -> None:
    """Compare the rows that this DuckDB reads with those of the other; raise AssertionError if they differ."""
    truth = json.loads((folder / "truth.json").read_text())
    assert truth["duckdb"] != duckdb.__version__, "both are the same DuckDB"
    assert views().keys() < truth["rows"].keys()
    for rows in (snapshot_rows(folder / "analytics.duckdb"), exported_rows(folder / "export", truth["rows"])):
        assert json.loads(json.dumps(rows, default=str)) == truth["rows"]


def exported_rows(folder: Path, tables: Iterable[str]) -> dict[str, Rows]:
    """Return the rows of each table of an export."""
    found = {}
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        for table in tables:
            files = [str(path) for path in (*folder.glob(f"{table}.parquet"), *folder.glob(f"{table}/**/*.parquet"))]
            answer = db.execute("SELECT * FROM read_parquet(?)", [files])
            names = [str(column[0]) for column in answer.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
            found[table] = plain([{name: row[name] for name in row if name not in AGES} for row in rows])
    return found


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](Path(sys.argv[2]))
