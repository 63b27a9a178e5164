"""Part of `make long`: a snapshot and its export are written with one DuckDB version and read with another."""

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from connectors.warehouse.queries.export import export
from models.views import views
from tests.warehouse.days import opened_days
from tests.warehouse.export_fixture import AGES, make_snapshot, plain, snapshot_rows


def _message(rows: object) -> object:
    return json.loads(json.dumps(rows, default=str))


def make(folder: Path) -> str:
    """Write a snapshot, its export, and the rows that this DuckDB reads from them."""
    folder.mkdir(parents=True)
    snapshot = folder / "analytics.duckdb"
    with TemporaryDirectory() as home, opened_days(Path(home)) as days:
        make_snapshot(days, snapshot)
    export(snapshot, folder / "export")
    truth = snapshot_rows(snapshot)
    (folder / "truth.json").write_text(json.dumps({"duckdb": duckdb.__version__, "truth": truth}, default=str))
    return f"made under DuckDB {duckdb.__version__}: {len(truth)} tables and views"


def check(folder: Path) -> str:
    """Compare the rows that this DuckDB reads with those of the other; raise AssertionError if they differ."""
    written = json.loads((folder / "truth.json").read_text())
    assert written["duckdb"] != duckdb.__version__, "both are the same DuckDB"
    truth, snapshot = written["truth"], folder / "analytics.duckdb"
    assert _message(snapshot_rows(snapshot)) == truth
    assert views().keys() < truth.keys()
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        for table in truth:
            files = [str(path) for path in (folder / "export").rglob("*.parquet")]
            found = [
                path
                for path in files
                if Path(path).relative_to(folder / "export").parts[0] in {table, f"{table}.parquet"}
            ]
            answer = db.execute("SELECT * FROM read_parquet(?)", [found])
            names = [str(column[0]) for column in answer.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
            for row in rows:
                for name in AGES:
                    row.pop(name, None)
            assert _message(plain(rows)) == truth[table], table
    return f"read alike under DuckDB {duckdb.__version__}: the snapshot and its export, made under {written['duckdb']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["make", "check"])
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    print((make if given.step == "make" else check)(given.folder))  # noqa: T201 - it is a script


if __name__ == "__main__":
    main()
