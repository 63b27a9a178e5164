"""The snapshot and its export: analysts' libraries read the same rows, and no other file is lost to an export."""

import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from sqlalchemy import MetaData, Table, create_engine, inspect, make_url

from connectors.warehouse.queries.export import export
from models.views import views
from tests.warehouse.compat import Rows, make, rows_of, snapshot_rows
from tests.warehouse.days import at, refusal

TABLES = [*sorted(views()), "media_hand"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a snapshot, and an export of it."""
    folder = tmp_path_factory.mktemp("made")
    make(folder)
    return folder


@pytest.fixture(scope="module")
def truth(made: Path) -> dict[str, Rows]:
    """Return every table of the snapshot; read first, because a file has one configuration per process."""
    return snapshot_rows(made / "analytics.duckdb")


@pytest.fixture
def snapshot(made: Path, tmp_path: Path) -> Path:
    """A copy of the snapshot, with an earlier export beside it. Their names have what SQL and globs must quote."""
    folder = shutil.copytree(made, tmp_path / 'it\'s "so" {i} *')
    return Path((folder / "analytics.duckdb").rename(folder / "it's.duckdb"))


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_exported_rows_and_plain_types_are_the_snapshots_in_every_library(truth: dict[str, Rows], made: Path) -> None:
    types = dict[str, str]()
    for table in TABLES:
        path = made / "export" / f"{table}.parquet"
        read = ds.dataset(path).to_table()
        types |= {field.name: str(field.type) for field in read.schema}
        frame = pd.read_parquet(path, dtype_backend="pyarrow")
        for found in (read, pl.read_parquet(path).to_arrow(), pa.Table.from_pandas(frame, preserve_index=False)):
            assert rows_of(found) == truth[table]
    assert types["surface"] == types["caption"] == "string"
    assert (types["published_at"], types["like_count"]) == ("timestamp[us, tz=UTC]", "int64")
    assert types['hand "odd", name'].startswith("list<")
    assert "timestamp[us, tz=UTC]" in types["instants"]


@pytest.mark.usefixtures("truth")
def test_sqlalchemy_reflects_tables_columns_and_comments(made: Path) -> None:
    url = make_url("duckdb://").set(database=str(made / "analytics.duckdb"))
    engine = create_engine(url, connect_args={"read_only": True})
    found_names = [*inspect(engine).get_table_names(), *inspect(engine).get_view_names()]
    assert {*TABLES} <= {name.rpartition(".")[2] for name in found_names}
    for view in views().values():
        found = Table(view.name, MetaData(), autoload_with=engine)
        assert found.comment == view.comment
        assert view.columns.items() <= {column.name: column.comment for column in found.columns}.items()
    engine.dispose()


def test_every_table_and_view_is_a_file_sorted_by_account(truth: dict[str, Rows], snapshot: Path) -> None:
    folder = snapshot.parent / "ex'port"
    published_at, exported = export(snapshot, folder)
    assert {*TABLES} == truth.keys()
    assert published_at == at(3)
    written = contents(folder)
    assert written.keys() == {f"{name}.parquet" for name in truth}
    assert {table["name"]: (table["rows"], table["bytes"]) for table in exported} == {
        name: (len(rows), len(written[f"{name}.parquet"])) for name, rows in truth.items()
    }
    group = pq.read_metadata(folder / "media.parquet").row_group(0)
    assert {group.column(place).compression for place in range(group.num_columns)} == {"ZSTD"}
    keys = pq.read_table(folder / "media.parquet", columns=["account_id", "surface"]).to_pylist()
    assert keys == sorted(keys, key=lambda row: (row["account_id"], row["surface"]))


def test_an_earlier_export_and_the_remains_of_a_killed_one_are_replaced(snapshot: Path) -> None:
    folder, draft = snapshot.parent / "export", snapshot.parent / ".export.exporting"
    (folder / "notes.txt").write_text("mine")
    draft.mkdir()
    (draft / "half.parquet").write_text("half")
    with duckdb.connect(str(snapshot)) as db:
        db.execute("DROP TABLE media_hand; DELETE FROM core.media")
    tables = {table["name"]: table["rows"] for table in export(snapshot, folder)[1]}
    assert {path.name for path in folder.iterdir()} == {"notes.txt", *(f"{name}.parquet" for name in tables)}
    assert ("media_hand" in tables, tables["media"], draft.exists()) == (False, 0, False)


def mine_is_there(folder: Path) -> None:
    duckdb.execute(f"COPY (SELECT 1 AS mine) TO '{folder.parent}/mine'".replace("it's", "it''s"))
    (folder.parent / "mine").rename(folder / "mine.parquet")


def link_in_its_place(folder: Path) -> None:
    (folder / "media.parquet").unlink()
    (folder / "media.parquet").symlink_to(folder.parent / "it's.duckdb")


def file_instead_of_the_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("mine")


def no_space(_: Path) -> None:
    # As on a full disk, after a part of the file is written.
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (mine_is_there, "mine.parquet is not part of a gramhouse export"),
        (link_in_its_place, "media.parquet is not part of a gramhouse export"),
        (file_instead_of_the_folder, "File exists"),
        (no_space, "Fix: free space"),
    ],
)
def test_an_export_that_is_refused_changes_no_file(
    snapshot: Path, prepare: Callable[[Path], None], message: str
) -> None:
    folder, limit = snapshot.parent / "export", resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        prepare(folder)
        before = contents(snapshot.parent)
        told = refusal(lambda: export(snapshot, folder))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert message in told
    assert str(folder) in told
    assert contents(snapshot.parent) == before
    assert [path.name for path in snapshot.parent.rglob(".*")] == []
