"""The export: complete, and never at the expense of existing files."""

import json
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from connectors.warehouse.queries.export import Export, export
from models.views import views
from tests.operator import run_here
from tests.warehouse.days import at, opened_days, refusal
from tests.warehouse.export_fixture import make_snapshot, snapshot_rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "analytics.duckdb"
    with opened_days(tmp_path_factory.mktemp("warehouse")) as days:
        make_snapshot(days, path)
    return path


@pytest.fixture
def snapshot(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "analytics.duckdb"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out" / "export"


def put(snapshot: Path, folder: Path) -> Export:
    return export(snapshot, folder)


@pytest.fixture(scope="module")
def exported(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "export"
    put(made, folder)
    return folder


@pytest.fixture
def before(exported: Path, folder: Path) -> None:
    """An earlier export in the folder."""
    shutil.copytree(exported, folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_refused(snapshot: Path, folder: Path, message: str) -> None:
    """Assert that an export is refused in one line and changes no file."""
    around = folder.parent.parent
    before = contents(around)
    told = refusal(lambda: put(snapshot, folder))
    assert message in told
    assert str(folder) in told
    assert contents(around) == before
    assert [path.name for path in around.rglob(".*")] == []


def test_every_table_and_view_is_a_file_with_all_of_its_rows(made: Path, tmp_path: Path) -> None:
    exported = put(made, tmp_path / "export")
    rows = {name: len(rows) for name, rows in snapshot_rows(made).items()}
    assert {*views(), "media_hand"} == rows.keys()
    assert {table.name: table.rows for table in exported.tables} == rows
    assert exported.published_at == at(3)
    written = contents(tmp_path / "export")
    assert written.keys() == {f"{name}.parquet" for name in rows}
    for table in exported.tables:
        path = tmp_path / "export" / f"{table.name}.parquet"
        assert (table.bytes, table.rows) == (len(written[path.name]), pq.read_metadata(path).num_rows)


def test_files_are_zstd_and_sorted_by_account(exported: Path) -> None:
    group = pq.read_metadata(exported / "media.parquet").row_group(0)
    assert {group.column(place).compression for place in range(group.num_columns)} == {"ZSTD"}
    keys = pq.read_table(exported / "media.parquet", columns=["account_id", "surface"]).to_pylist()
    assert keys == sorted(keys, key=lambda row: (row["account_id"], row["surface"]))


@pytest.mark.usefixtures("before")
def test_an_earlier_export_is_replaced_and_other_files_stay(snapshot: Path, folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    duckdb.execute(f"COPY (SELECT 1 AS mine) TO '{folder}/mine.parquet'")
    with duckdb.connect(str(snapshot)) as db:
        db.execute("DROP TABLE media_hand")
        db.execute("DELETE FROM core.media")
    tables = {table.name: table.rows for table in put(snapshot, folder).tables}
    assert {path.name for path in folder.iterdir()} == {
        "notes.txt",
        "mine.parquet",
        *(f"{name}.parquet" for name in tables),
    }
    assert tables["media"] == 0
    assert [path.name for path in folder.parent.iterdir()] == ["export"]


@pytest.mark.usefixtures("before")
def test_another_file_in_the_place_of_one_of_the_export_is_not_replaced(
    snapshot: Path, folder: Path, tmp_path: Path
) -> None:
    (folder / "media.parquet").unlink()
    duckdb.execute(f"COPY (SELECT 1 AS mine) TO '{folder}/media.parquet'")
    check_refused(snapshot, folder, "media.parquet is not part of a gramhouse export")
    (folder / "media.parquet").unlink()
    (folder / "media.parquet").symlink_to(tmp_path / "analytics.duckdb")
    check_refused(snapshot, folder, "media.parquet is not part of a gramhouse export")


def test_a_file_in_the_way_is_reported(snapshot: Path, folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("mine")
    check_refused(snapshot, folder, "File exists")


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """Make writes fail as on a full disk, after a part of the file is written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("before")
def test_a_full_disk_is_reported_and_the_old_export_stays(snapshot: Path, folder: Path) -> None:
    with no_file_longer_than(3000):
        check_refused(snapshot, folder, "Fix: free space")
    put(snapshot, folder)


@pytest.mark.usefixtures("before")
def test_the_remains_of_a_killed_export_are_removed(snapshot: Path, folder: Path) -> None:
    draft = folder.with_name(".export.exporting")
    draft.mkdir()
    (draft / "half.parquet").write_text("half")
    put(snapshot, folder)
    assert not (folder / "half.parquet").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["export"]


def test_names_may_contain_quotes(snapshot: Path, tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s "so" {i} *'
    odd.mkdir()
    put(snapshot.rename(odd / "it's.duckdb"), odd / "ex'port")
    assert (odd / "ex'port" / "media.parquet").exists()


def test_the_command_prints_the_file_it_wrote(snapshot: Path, folder: Path) -> None:
    options = [str(folder), "--snapshot", str(snapshot)]
    code, out, _ = run_here("export", *options)
    assert code == 0
    assert out.startswith(f"✔ {len(views()) + 1} tables, ")
    document = json.loads(run_here("export", *options, "--json")[1])
    assert document["folder"] == str(folder)
    assert [table["bytes"] for table in document["tables"]] == [
        (folder / f"{table['name']}.parquet").stat().st_size for table in document["tables"]
    ]
    # The order of a view's rows, and so a file's size, differs between exports.
    unsized = [asdict(table) | {"bytes": None} for table in put(snapshot, folder).tables]
    assert [table | {"bytes": None} for table in document["tables"]] == unsized
