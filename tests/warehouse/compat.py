"""Part of `make long`: a snapshot and its export are written with one DuckDB version and read with another."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from connectors.warehouse.queries.export import export
from models.views import views
from tests.warehouse.days import opened_days
from tests.warehouse.export_fixture import make_snapshot, rows_of, snapshot_rows


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
    with duckdb.connect(config={"TimeZone": "UTC"}) as db:
        files = {table: str(folder / "export" / f"{table}.parquet") for table in truth["rows"]}
        exported = {
            table: rows_of(db.execute("FROM read_parquet(?)", [file]).to_arrow_table()) for table, file in files.items()
        }
    for rows in (snapshot_rows(folder / "analytics.duckdb"), exported):
        assert json.loads(json.dumps(rows, default=str)) == truth["rows"]


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](Path(sys.argv[2]))
