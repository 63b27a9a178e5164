"""What analysts read: the snapshot by their libraries, its export, which costs no other file, and the raw store.

`python -m tests.warehouse.snapshot.test_warehouse_export FOLDER` writes a snapshot and its export, which these tests
then read with another DuckDB: a part of `make long`.
"""

import os
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from connectors.warehouse.maintenance.compact_parts import compact_parts
from connectors.warehouse.queries.export import export
from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.raw.parts import read_parts
from models.feeds import CATALOGUE, media
from models.files import QueryError
from models.views import views
from tests.warehouse.rig import BEN, POSTS, STORIES, Rig, Row, account, ask, at, opened, refusal

CAPTIONS = (
    'it\'s "quoted", with a , and a ; and a \\ in it',
    "naïve, 日本語, עברית, 🎈, e\u0301",
    "two\nlines\r\nand\ta tab",
    "",
    "NULL",
    None,
)


def make(folder: Path) -> None:
    """Write a snapshot with values that are hard to export, its export, and the version of DuckDB."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as home, opened(Path(home)) as rig:
        rig.scan(CATALOGUE, 0, [account(), account(BEN, name="ben\u00e9", status="token_expired")])
        posts = [
            {
                "id": f"{n}",
                "caption": caption,
                "timestamp": f"2026-01-0{n + 1}T12:00:00.5+02:00",
                "like_count": n or None,
            }
            for n, caption in enumerate(CAPTIONS)
        ]
        rig.scan(POSTS, 1, posts)
        rig.scan(STORIES, 1, [{"id": "9", "media_type": "IMAGE", "like_count": 2**62}])
        rig.scan(media(BEN, "posts"), 2, [{"id": "1"}, {"caption": "no id"}])
        rig.publish(folder / "analytics.duckdb", 3)
    export(folder / "analytics.duckdb", folder / "export")
    (folder / "duckdb").write_text(duckdb.__version__)


Rows = list[dict[str, Any]]

# Columns that depend on the reader's clock.
AGES = ("stale_for", "age_seconds", "is_stale")


def rows_of(table: pa.Table) -> Rows:
    """Return the rows of a table in one order, without columns that depend on the clock."""
    kept = [name for name in sorted(table.column_names) if name not in AGES]
    return sorted(table.select(kept).to_pylist(), key=repr)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a snapshot, and an export of it."""
    if (given := os.environ.get("MADE_BY_ANOTHER_DUCKDB")) is not None:
        assert (Path(given) / "duckdb").read_text() != duckdb.__version__
        return Path(given)
    folder = tmp_path_factory.mktemp("made")
    make(folder)
    return folder


@pytest.fixture(scope="module")
def truth(made: Path) -> dict[str, Rows]:
    """Return the rows of each table and view of the snapshot."""
    with open_snapshot(made / "analytics.duckdb") as opened:
        names = [each["name"] for each in opened.relations() if each["kind"] != "macro"]
        return {name: rows_of(opened.db.execute(f'FROM "{name}"').to_arrow_table()) for name in names}


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
    for table in views():
        path = made / "export" / f"{table}.parquet"
        read = ds.dataset(path).to_table()
        types |= {field.name: str(field.type) for field in read.schema}
        frame = pd.read_parquet(path, dtype_backend="pyarrow")
        by_duckdb = duckdb.read_parquet(str(path)).to_arrow_table()
        by_polars, by_pandas = pl.read_parquet(path).to_arrow(), pa.Table.from_pandas(frame, preserve_index=False)
        for found in (read, by_duckdb, by_polars, by_pandas):
            assert rows_of(found) == truth[table]
    assert types["surface"] == types["caption"] == "string"
    assert (types["published_at"], types["like_count"]) == ("timestamp[us, tz=UTC]", "int64")
    assert types["columns"].startswith("list<")


def test_every_table_and_view_is_a_file_sorted_by_account(truth: dict[str, Rows], snapshot: Path) -> None:
    folder = snapshot.parent / "ex'port"
    published_at, exported = export(snapshot, folder)
    assert truth.keys() == views().keys()
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
    folder, draft = snapshot.parent / "export", snapshot.parent / "export" / ".exporting"
    (folder / "notes.txt").write_text("mine")
    draft.mkdir()
    (draft / "half.parquet").write_text("half")
    with duckdb.connect(str(snapshot)) as db:
        db.execute("DROP VIEW hashtags; DELETE FROM core.media")
    tables = {table["name"]: table["rows"] for table in export(snapshot, folder)[1]}
    assert {path.name for path in folder.iterdir()} == {"notes.txt", *(f"{name}.parquet" for name in tables)}
    assert ("hashtags" in tables, tables["media"], draft.exists()) == (False, 0, False)


def mine_is_there(folder: Path) -> None:
    pq.write_table(pa.table({"mine": [1]}), folder / "mine.parquet")


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
        (file_instead_of_the_folder, "Not a directory"),
        (no_space, "Fix: free space"),
    ],
)
def test_a_refused_export_changes_no_file(snapshot: Path, prepare: Callable[[Path], None], message: str) -> None:
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


ONE, OTHER = {"id": "1", "caption": "\u00e9"}, {"id": "2"}


def publish_versions(rig: Rig) -> Path:
    """Publish an item with two versions, the last of which was counted again, and another with one."""
    for hour, item in ((0, ONE), (24, ONE | {"caption": "b"}), (48, ONE | {"caption": "b", "likes": 2})):
        rig.scan(POSTS, hour, [item, OTHER])
    return rig.publish()


@pytest.fixture(scope="module")
def versioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with opened(tmp_path_factory.mktemp("versions")) as rig:
        return publish_versions(rig)


def asked(versioned: Path, query: str) -> list[Row]:
    with open_snapshot(versioned, with_raw=True) as opened:
        return [row for batch in opened.user_query(query).batches for row in batch]


def test_raw_media_has_the_newest_bytes_of_each_item(versioned: Path) -> None:
    with open_snapshot(versioned, with_raw=True) as opened:
        found = opened.query("FROM Raw_Media ORDER BY media_id")
    assert [*found[0]] == ["account_id", "surface", "media_id", "seen_at", "run_id", "correlation_id", "payload"]
    assert [(row["media_id"], row["payload"], row["seen_at"]) for row in found] == [
        ("1", '{"id": "1", "caption": "b", "likes": 2}', at(48 + 1 / 60)), ("2", '{"id": "2"}', at(1 / 60)),
    ]  # fmt: skip
    joined = "SELECT m.caption, r.payload->>'likes' FROM media AS m JOIN raw_media AS r USING (media_id) ORDER BY 1"
    assert asked(versioned, joined) == [("b", "2"), (None, None)]
    assert asked(versioned, "SELECT count(*) FROM raw_versions") == [("4",)]


def test_a_query_with_raw_media_opens_no_other_file(versioned: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for query in (
        f"SELECT (SELECT count(*) FROM raw_media), * FROM read_csv('{tmp_path}/secret.csv')",
        f"SELECT * FROM raw_media, read_text('{tmp_path}/secret.csv')",
        "SELECT * FROM raw_media, glob('/etc/*')",
    ):
        with pytest.raises(QueryError):
            asked(versioned, query)


def test_bytes_are_not_shown_beside_hidden_columns(rig: Rig) -> None:
    rig.scan(POSTS, 0, [ONE])
    hidden = rig.publish(hide=["caption"])
    assert "hidden columns" in refusal(lambda: asked(hidden, "FROM raw_media"))


def test_a_missing_store_is_reported_in_one_line(rig: Rig) -> None:
    versioned = publish_versions(rig)
    (versioned.parent / "raw").rename(versioned.parent / "elsewhere")
    message = refusal(lambda: asked(versioned, "FROM raw_media"))
    assert f"{versioned.parent / 'raw'} of the raw store cannot be read" in message
    assert "Fix: " in message
    assert ask(versioned, "SELECT count(*) FROM media") == [(2,)]


def test_a_damaged_part_is_read_by_no_query_no_export_and_no_rebuild(rig: Rig, tmp_path: Path) -> None:
    versioned = publish_versions(rig)
    part = min((versioned.parent / "raw").iterdir())
    data = bytearray(part.read_bytes())
    group = pq.read_metadata(part).row_group(0)
    payload = group.column(pq.read_schema(part).get_field_index("payload"))
    data[payload.data_page_offset + payload.total_compressed_size - 1] ^= 1
    part.chmod(0o600)
    part.write_bytes(data)
    # No wrong usage, as a QueryError is.
    message = refusal(lambda: asked(versioned, "SELECT max(payload) FROM raw_media"))
    assert "CRC checksum verification failed" in message
    assert "Fix: `gramhouse doctor`" in message
    assert "checksum" in refusal(lambda: export(versioned, tmp_path / "out", with_raw=True))
    assert "checksum" in refusal(lambda: [*read_parts(part.parent, merged_seq=9)])
    assert not (tmp_path / "out").exists()


def test_each_landing_is_read_once_after_a_compaction_and_none_that_came_later(rig: Rig) -> None:
    versioned = publish_versions(rig)
    before = asked(versioned, "FROM raw_versions ORDER BY landed, position")
    # The parts that it replaces stay for a day, because readers may still use them.
    assert compact_parts(rig.db, rig.folder / "raw", now=at(72), before=None)["parts_after"] == 1
    assert len([*(rig.folder / "raw").iterdir()]) > 1
    rig.scan(POSTS, 72, [ONE, OTHER])
    assert asked(versioned, "FROM raw_versions ORDER BY landed, position") == before


def test_an_export_hands_over_all_versions(versioned: Path, tmp_path: Path) -> None:
    tables = {table["name"]: table for table in export(versioned, tmp_path / "out", with_raw=True)[1]}
    assert (tables["raw_versions"]["kind"], tables["raw_versions"]["rows"]) == ("raw", 4)
    rows = pq.read_table(tmp_path / "out" / "raw_versions.parquet").to_pylist()
    assert rows[0]["payload"] == '{"id": "1", "caption": "\\u00e9"}'
    assert max(row["seen_at"] for row in rows) == at(48 + 1 / 60)
    assert "raw_versions" not in {table["name"] for table in export(versioned, tmp_path / "out")[1]}


if __name__ == "__main__":
    make(Path(sys.argv[1]))
