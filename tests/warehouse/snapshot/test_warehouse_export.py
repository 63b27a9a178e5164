"""The export: complete, listed in its manifest, and never at the expense of existing files."""

import fcntl
import hashlib
import json
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from connectors.warehouse.snapshot.export import export
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseUnusable
from flows.cli.app import app
from models.views import views
from tests.warehouse.export_fixture import make_snapshot, snapshot_rows
from tests.warehouse.rig import at, refusal


@pytest.fixture(scope="module")
def made(opened_rig: Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "analytics.duckdb"
    make_snapshot(opened_rig, path)
    return path


@pytest.fixture
def snapshot(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "analytics.duckdb"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "out" / "export"


def put(snapshot: Path, folder: Path) -> dict[str, Any]:
    return export(snapshot, folder, at=at(4))


@pytest.fixture(scope="module")
def exported(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "export"
    put(made, folder)
    return folder


@pytest.fixture
def before(exported: Path, folder: Path) -> None:
    """An earlier export in the folder."""
    shutil.copytree(exported, folder)


def manifest(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))


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


def test_the_manifest_lists_every_table_and_view_and_every_file(made: Path, exported: Path) -> None:
    found = manifest(exported)
    assert (found["format"], found["format_version"], found["gramhouse"]) == ("gramhouse export", 1, "1.2.3")
    assert (found["published_at"], found["exported_at"]) == (at(3).isoformat(), at(4).isoformat())
    rows = {name: len(rows) for name, rows in snapshot_rows(made).items()}
    assert [table["name"] for table in found["tables"]] == list(rows)
    assert {*views(), "media_hand"} == rows.keys()
    files = {file["path"]: file for table in found["tables"] for file in table["files"]}
    written = contents(exported)
    assert files.keys() | {"manifest.json"} == written.keys()
    for path, file in files.items():
        assert file["bytes"] == len(written[path])
        assert file["sha256"] == hashlib.sha256(written[path]).hexdigest()
        assert file["rows"] == pq.read_metadata(exported / path).num_rows
    for table in found["tables"]:
        assert table["rows"] == sum(file["rows"] for file in table["files"]) == rows[table["name"]]


def test_the_manifest_lists_columns_with_type_and_comment(exported: Path) -> None:
    tables = {table["name"]: table for table in manifest(exported)["tables"]}
    for view in views().values():
        assert tables[view.name]["comment"] == view.comment
        comments = {column["name"]: column["comment"] for column in tables[view.name]["columns"]}
        assert {**view.columns, **comments} == {**comments, **view.columns}
    hand = {column["name"]: column for column in tables["media_hand"]["columns"]}
    assert hand["flag"] == {"name": "flag", "type": "BOOLEAN", "comment": "Liked."}
    assert tables["media_hand"]["partitioned_by"] == ["surface"]
    assert tables["accounts"]["partitioned_by"] == []


def test_the_types_in_the_manifest_are_those_of_the_files(exported: Path) -> None:
    for table in manifest(exported)["tables"]:
        message = {
            column["name"]: column["type"]
            for column in table["columns"]
            if column["name"] not in table["partitioned_by"]
        }
        for file in table["files"]:
            with duckdb.connect() as db:
                query = "DESCRIBE SELECT * FROM read_parquet(?, hive_partitioning = false)"
                rows = db.execute(query, [str(exported / file["path"])]).fetchall()
            assert {row[0]: row[1] for row in rows} == message


def test_files_are_zstd_and_a_surface_without_items_has_its_file(snapshot: Path, folder: Path) -> None:
    with duckdb.connect(str(snapshot)) as db:
        db.execute("DELETE FROM core.media WHERE surface = 'stories'")
    put(snapshot, folder)
    read = {path.parent.name: pq.read_metadata(path) for path in (folder / "media").rglob("*.parquet")}
    assert read["surface=stories"].num_rows == 0
    group = read["surface=posts"].row_group(0)
    assert {group.column(place).compression for place in range(group.num_columns)} == {"ZSTD"}


@pytest.mark.usefixtures("before")
def test_an_earlier_export_is_replaced_whole(snapshot: Path, folder: Path) -> None:
    with duckdb.connect(str(snapshot)) as db:
        db.execute("DROP TABLE media_hand")
        db.execute("DELETE FROM core.media")
    put(snapshot, folder)
    assert not (folder / "media_hand").exists()
    assert {table["name"]: table["rows"] for table in manifest(folder)["tables"]}["media"] == 0
    assert [path.name for path in folder.parent.iterdir()] == ["export"]


@pytest.mark.parametrize("text", [None, "[]", '{"format": "somebody else\'s", "tables": []}'])
def test_a_folder_with_other_files_is_refused(snapshot: Path, folder: Path, text: str | None) -> None:
    folder.mkdir(parents=True)
    (folder / "precious").write_text("mine")
    if text is not None:
        (folder / "manifest.json").write_text(text)
    check_refused(snapshot, folder, "is not a gramhouse export")


@pytest.mark.usefixtures("before")
def test_an_export_folder_with_other_files_is_refused(snapshot: Path, folder: Path, tmp_path: Path) -> None:
    for name in ("notes.txt", "media/notes.txt", "media/surface=reels/data.parquet"):
        stranger = folder / name
        stranger.parent.mkdir(exist_ok=True)
        stranger.write_text("mine")
        check_refused(snapshot, folder, "is not part of an export")
        stranger.unlink()
    shutil.rmtree(folder / "media")
    for name in ("linked", "media"):
        (folder / name).symlink_to(tmp_path)
        check_refused(snapshot, folder, "is not part of an export")
        (folder / name).unlink()


@pytest.mark.usefixtures("before")
def test_files_added_meanwhile_are_kept(snapshot: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = json.dumps

    def slowly(*given: Any, **named: Any) -> str:  # noqa: ANN401
        (folder / "precious").write_text("mine")
        return write(*given, **named)

    monkeypatch.setattr("connectors.warehouse.snapshot.export.json.dumps", slowly)
    with pytest.raises(WarehouseUnusable, match="it contains precious"):
        put(snapshot, folder)
    assert (folder / "precious").read_text() == "mine"
    assert [path.name for path in folder.parent.iterdir()] == ["export"]


def test_a_file_in_the_way_is_reported(snapshot: Path, folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("mine")
    check_refused(snapshot, folder, "it is a file")


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
        check_refused(snapshot, folder, "The previous export is unchanged.")
    put(snapshot, folder)


@pytest.mark.usefixtures("before")
def test_a_second_concurrent_export_is_refused(snapshot: Path, folder: Path) -> None:
    workshop = folder.with_name(".export.exporting")
    workshop.mkdir()
    handle = os.open(workshop, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        before = contents(folder)
        with pytest.raises(WarehouseBusy, match="Another export is writing"):
            put(snapshot, folder)
        assert contents(folder) == before
    finally:
        os.close(handle)
    put(snapshot, folder)
    assert [path.name for path in folder.parent.iterdir()] == ["export"]


@pytest.mark.usefixtures("before")
def test_the_remains_of_a_killed_export_are_repaired(snapshot: Path, folder: Path) -> None:
    workshop = folder.with_name(".export.exporting")
    (workshop / "files").mkdir(parents=True)
    (workshop / "files" / "half.parquet").write_text("half")
    folder.rename(workshop / "before")
    with no_file_longer_than(100), pytest.raises(WarehouseUnusable):
        put(snapshot, folder)
    assert manifest(folder)["gramhouse"] == "1.2.3"
    assert [path.name for path in folder.parent.iterdir()] == ["export"]


def test_names_may_contain_quotes(snapshot: Path, tmp_path: Path) -> None:
    odd = tmp_path / 'it\'s "so" {i} *'
    odd.mkdir()
    put(snapshot.rename(odd / "it's.duckdb"), odd / "ex'port")
    assert manifest(odd / "ex'port")["gramhouse"] == "1.2.3"


def test_the_command_prints_the_file_it_wrote(snapshot: Path, folder: Path) -> None:
    options = [str(folder), "--snapshot", str(snapshot)]
    output = CliRunner().invoke(app, ["export", *options])
    assert output.exit_code == 0
    assert output.stdout.startswith(f"✔ {len(views()) + 1} tables, ")
    document = json.loads(CliRunner().invoke(app, ["export", *options, "--json"]).stdout)
    assert document["folder"] == str(folder)
    tables = manifest(folder)["tables"]
    assert document["tables"] == [{name: table[name] for name in ("name", "kind", "rows", "bytes")} for table in tables]
