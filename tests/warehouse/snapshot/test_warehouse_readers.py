"""Analysts' libraries: each reads the same rows from the snapshot and its export."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow.dataset as ds
import pytest
from sqlalchemy import Engine, MetaData, Table, create_engine, inspect, make_url

from connectors.warehouse.queries.export import export
from models.views import views
from tests.warehouse.days import opened_days
from tests.warehouse.export_fixture import AGES, CAPTIONS, Rows, make_snapshot, plain, snapshot_rows

TABLES = [*sorted(views()), "media_hand"]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("readers") / "analytics.duckdb"
    with opened_days(tmp_path_factory.mktemp("warehouse")) as days:
        make_snapshot(days, path)
    return path


@pytest.fixture(scope="module")
def folder(snapshot: Path) -> Path:
    folder = snapshot.parent / "export"
    export(snapshot, folder)
    return folder


@pytest.fixture(scope="module")
def truth(snapshot: Path) -> dict[str, Rows]:
    """Return every table of the snapshot; read first, because a file has one configuration per process."""
    return snapshot_rows(snapshot)


@pytest.fixture
def db(snapshot: Path, truth: dict[str, Rows]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(snapshot), read_only=True) as connection:
        # Clients that ignore our time zone show times in the machine's.
        connection.execute("SET TimeZone = 'UTC'")
        assert truth
        yield connection


@pytest.fixture
def engine(snapshot: Path, truth: dict[str, Rows]) -> Iterator[Engine]:
    url = make_url("duckdb://").set(database=str(snapshot))
    assert truth
    made = create_engine(url, connect_args={"read_only": True})
    yield made
    made.dispose()


def timeless(rows: Rows) -> Rows:
    return plain([{name: value for name, value in row.items() if name not in AGES} for row in rows])


def test_every_table_is_looked_at(truth: dict[str, Rows]) -> None:
    assert set(TABLES) <= set(truth)
    # An empty text is none.
    assert {row["caption"] for row in truth["media"]} == {caption or None for caption in CAPTIONS}
    assert sum(bool(truth[table]) for table in TABLES) >= 7


@pytest.mark.parametrize("table", TABLES)
def test_exported_rows_are_the_snapshots_in_every_library(truth: dict[str, Rows], folder: Path, table: str) -> None:
    path = folder / f"{table}.parquet"
    expected = truth[table]
    assert timeless(ds.dataset(path).to_table().to_pylist()) == expected
    assert timeless(pl.scan_parquet(path).collect().to_dicts()) == expected
    assert timeless(pd.read_parquet(path).to_dict("records")) == expected
    with duckdb.connect() as other:
        other.execute("SET TimeZone = 'UTC'")
        answer = other.execute("SELECT * FROM read_parquet(?)", [str(path)])
        names = [column[0] for column in answer.description or ()]
        assert timeless([dict(zip(names, row, strict=True)) for row in answer.fetchall()]) == expected


def test_types_are_plain_in_parquet(folder: Path) -> None:
    media = ds.dataset(folder / "media.parquet").schema
    types = {field.name: str(field.type) for field in media}
    assert types["surface"] == types["caption"] == "string"
    assert types["published_at"] == "timestamp[us, tz=UTC]"
    assert types["like_count"] == "int64"
    assert types['hand "odd", name'].startswith("list<")
    hand = {field.name: str(field.type) for field in ds.dataset(folder / "media_hand.parquet").schema}
    assert "timestamp[us, tz=UTC]" in hand["instants"]


# DuckDB uses deprecated functions of pandas.
@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_duckdb_reads_the_snapshot_plainly_and_as_frames(truth: dict[str, Rows], db: duckdb.DuckDBPyConnection) -> None:
    expected = truth["media"]
    assert plain(db.sql("FROM media").df().to_dict("records")) == expected
    assert plain(db.sql("FROM media").pl().to_dicts()) == expected
    assert plain(db.sql("FROM media").to_arrow_table().to_pylist()) == expected


def test_sqlalchemy_reflects_tables_columns_and_comments(engine: Engine) -> None:
    found_names = [*inspect(engine).get_table_names(), *inspect(engine).get_view_names()]
    names = {name.rpartition(".")[2] for name in found_names}
    assert {*views(), "media_hand"} <= names
    for view in views().values():
        found = Table(view.name, MetaData(), autoload_with=engine)
        assert found.comment == view.comment
        columns = {column.name: column.comment for column in found.columns}
        assert view.columns.items() <= columns.items()
