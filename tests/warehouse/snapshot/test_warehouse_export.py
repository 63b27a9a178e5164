"""The export: complete, and never at the expense of existing files."""

import json
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from connectors.warehouse.queries.export import export
from models.views import views
from tests.operator import run_here
from tests.warehouse.days import at, opened_days, refusal
from tests.warehouse.export_fixture import make_snapshot, snapshot_rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a snapshot, and an export of it."""
    folder = tmp_path_factory.mktemp("made")
    with opened_days(tmp_path_factory.mktemp("warehouse")) as days:
        make_snapshot(days, folder / "analytics.duckdb")
    export(folder / "analytics.duckdb", folder / "export")
    return folder


@pytest.fixture
def snapshot(made: Path, tmp_path: Path) -> Path:
    """A copy of the snapshot, with an earlier export beside it."""
    return Path(shutil.copytree(made, tmp_path / "made")) / "analytics.duckdb"


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_table_and_view_is_a_file_with_all_of_its_rows_sorted_by_account(made: Path, tmp_path: Path) -> None:
    # Names may contain quotes.
    odd = tmp_path / 'it\'s "so" {i} *'
    odd.mkdir()
    snapshot = Path(shutil.copy(made / "analytics.duckdb", odd / "it's.duckdb"))
    exported = export(snapshot, odd / "ex'port")
    rows = {name: len(rows) for name, rows in snapshot_rows(snapshot).items()}
    assert {*views(), "media_hand"} == rows.keys()
    assert exported.published_at == at(3)
    written = contents(odd / "ex'port")
    assert written.keys() == {f"{name}.parquet" for name in rows}
    for table in exported.tables:
        found = pq.read_metadata(odd / "ex'port" / f"{table.name}.parquet").num_rows
        assert (table.rows, found) == (rows[table.name], rows[table.name])
        assert table.bytes == len(written[f"{table.name}.parquet"])
    group = pq.read_metadata(odd / "ex'port" / "media.parquet").row_group(0)
    assert {group.column(place).compression for place in range(group.num_columns)} == {"ZSTD"}
    keys = pq.read_table(odd / "ex'port" / "media.parquet", columns=["account_id", "surface"]).to_pylist()
    assert keys == sorted(keys, key=lambda row: (row["account_id"], row["surface"]))


def test_an_earlier_export_and_the_remains_of_a_killed_one_are_replaced_and_other_files_stay(snapshot: Path) -> None:
    folder, draft = snapshot.parent / "export", snapshot.parent / ".export.exporting"
    (folder / "notes.txt").write_text("mine")
    draft.mkdir()
    (draft / "half.parquet").write_text("half")
    with duckdb.connect(str(snapshot)) as db:
        db.execute("DROP TABLE media_hand")
        db.execute("DELETE FROM core.media")
    tables = {table.name: table.rows for table in export(snapshot, folder).tables}
    names = {"notes.txt", *(f"{name}.parquet" for name in tables)}
    assert {path.name for path in folder.iterdir()} == names
    assert "media_hand" not in tables
    assert tables["media"] == 0
    assert not draft.exists()


def mine_in_its_place(folder: Path) -> None:
    duckdb.execute(f"COPY (SELECT 1 AS mine) TO '{folder}/mine.parquet'")


def link_in_its_place(folder: Path) -> None:
    (folder / "media.parquet").unlink()
    (folder / "media.parquet").symlink_to(folder.parent / "analytics.duckdb")


def file_instead_of_the_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("mine")


def no_space(_: Path) -> None:
    # As on a full disk, after a part of the file is written.
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (mine_in_its_place, "mine.parquet is not part of a gramhouse export"),
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


def test_the_command_prints_the_files_it_wrote(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    options = [str(folder), "--snapshot", str(made / "analytics.duckdb")]
    code, out, _ = run_here("export", *options)
    assert code == 0
    assert out.startswith(f"✔ {len(views()) + 1} tables, ")
    document = json.loads(run_here("export", *options, "--json")[1])
    assert document["folder"] == str(folder)
    sizes = {table["name"]: (folder / f"{table['name']}.parquet").stat().st_size for table in document["tables"]}
    assert {table["name"]: table["bytes"] for table in document["tables"]} == sizes
    assert {(table["kind"], table["rows"]) for table in document["tables"] if table["name"] == "published"} == {
        ("table", 1)
    }
