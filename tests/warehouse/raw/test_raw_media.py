"""The raw store for readers: `raw_media` in queries, and the parts in an export."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.maintenance.compact import compact
from connectors.warehouse.snapshot.export import export
from connectors.warehouse.snapshot.publish import publish
from connectors.warehouse.snapshot.reader import open_snapshot
from connectors.warehouse.storage.connection import connect
from connectors.warehouse.storage.errors import QueryError, WarehouseUnusable
from models.page_commit import PageCommit
from tests.warehouse.rig import POSTS, T0, Rig, Row, Scan, at

FIRST = '{ "id":"1", "caption" : "\\u00e9 é", "likes":1.0 }'
SECOND = '{"caption":"b","id":"1","likes":1}'
COUNTED = '{"caption":"b","id":"1","likes":2}'
OTHER = '{"id":"2"}'


def page(scan_id: str, hour: float, *items: str) -> PageCommit:
    text = f'{{"items":[{", ".join(items)}],"next_cursor":null}}'
    return Scan(POSTS, scan_id, at(hour)).page([{}] * len(items), at(hour), last=True, text=text)


@contextmanager
def filled(path: Path) -> Iterator[Rig]:
    """A warehouse with an item of two versions, the last of which was counted again, and one of a single version."""
    with connect(path, new_id=lambda: "an-id") as connection:
        rig = Rig(connection)
        for number, items in enumerate(((FIRST, OTHER), (SECOND, OTHER), (COUNTED, OTHER))):
            rig.land(page(f"w{number}", 24 * number, *items))
            rig.merge()
        yield rig


@pytest.fixture
def rig(path: Path) -> Iterator[Rig]:
    with filled(path) as rig:
        yield rig


@pytest.fixture
def snapshot(rig: Rig, tmp_path: Path) -> Path:
    publish(rig.connection, tmp_path / "s.duckdb", at=at(99), version="1")
    return tmp_path / "s.duckdb"


def asked(snapshot: Path, query: str) -> list[Row]:
    with open_snapshot(snapshot, with_raw=True) as opened:
        return [row for batch in opened.user_query(query).batches for row in batch]


def parts(path: Path) -> list[Path]:
    return sorted((path.parent / "raw" / "an-id" / "media").iterdir())


def everything(path: Path) -> dict[str, list[Row]]:
    """Return the rows of merged data, and the list of parts."""
    with connect(path) as connection:
        return Rig(connection).everything("schema_name = 'core' OR table_name = 'raw_parts'")


def all_rows(files: list[Path]) -> list[Row]:
    with duckdb.connect() as db:
        return db.execute("SELECT payload FROM read_parquet(?) ORDER BY landed", [list(map(str, files))]).fetchall()


def test_each_merge_stores_only_new_and_changed_items(rig: Rig, path: Path) -> None:
    assert all_rows(parts(path)) == [(FIRST,), (OTHER,), (SECOND,), (COUNTED,)]
    rig.land(page("w9", 90, '{"id":"1","likes":2, "caption":"b"}', OTHER))
    rig.merge()
    assert len(parts(path)) == 3
    kept = "SELECT caption, gh_payload FROM {}"
    assert rig.rows(kept.format(rig.kept("core.media_superseded"))) == [("é é", FIRST)]
    assert sorted(rig.rows(kept.format(rig.kept())), key=str) == [("b", COUNTED), (None, OTHER)]


def test_raw_media_has_the_newest_bytes_of_each_item(snapshot: Path) -> None:
    found = asked(
        snapshot, "SELECT media_id, payload, epoch(seen_at), run_id, correlation_id FROM Raw_Media ORDER BY 1"
    )
    assert [(*row[:2], float(row[2]), *row[3:]) for row in found] == [
        ("1", COUNTED, at(48).timestamp(), "run-1", "w2-1"),
        ("2", OTHER, T0.timestamp(), "run-1", "w0-1"),
    ]
    joined = "SELECT m.caption, r.payload->>'likes' FROM media AS m JOIN raw_media AS r USING (media_id) ORDER BY 1"
    assert asked(snapshot, joined) == [("b", "2"), (None, None)]


def test_a_query_with_raw_media_opens_no_other_file(snapshot: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for query in (
        f"SELECT (SELECT count(*) FROM raw_media), * FROM read_csv('{tmp_path}/secret.csv')",
        f"SELECT * FROM raw_media, read_text('{tmp_path}/secret.csv')",
        "SELECT * FROM raw_media, glob('/etc/*')",
    ):
        with pytest.raises(QueryError):
            asked(snapshot, query)


def test_an_unreadable_part_is_reported_in_one_line(snapshot: Path, path: Path) -> None:
    gone = parts(path)[1]
    gone.unlink()
    with pytest.raises(WarehouseUnusable) as raised, open_snapshot(snapshot, with_raw=True):
        pass
    message = str(raised.value)
    assert str(gone) in message
    assert "Fix: " in message
    assert "\n" not in message
    with open_snapshot(snapshot) as opened:
        assert opened.query("SELECT count(*) FROM media").rows == [(2,)]


def query_raw(snapshot: Path) -> None:
    asked(snapshot, "SELECT count(*) FROM raw_media")


def export_raw(snapshot: Path) -> None:
    export(snapshot, snapshot.with_name("out"), at=at(100), with_raw=True)


def rebuild(snapshot: Path) -> None:
    with connect(snapshot.with_name("warehouse.duckdb")) as connection:
        Rig(connection).rebuild()


def compaction(snapshot: Path) -> None:
    compact(snapshot.with_name("warehouse.duckdb"), now=at(100), pause=lambda _: None)


def new_type(snapshot: Path) -> None:
    """Merge a value that widens a column, so that the column of stored items is decoded again."""
    with connect(snapshot.with_name("warehouse.duckdb")) as connection:
        rig = Rig(connection)
        rig.seq = 100
        rig.land(page("wide", 100, '{"id":"3","caption":["a"]}'))
        rig.merge()


@pytest.fixture
def published(path: Path, tmp_path: Path) -> Path:
    """The snapshot of a warehouse that is closed."""
    with filled(path) as rig:
        publish(rig.connection, tmp_path / "s.duckdb", at=at(99), version="1")
    return tmp_path / "s.duckdb"


# tests/e2e/faults/test_e2e_files.py has the commands of the others.
@pytest.mark.parametrize("read", [compaction, new_type])
def test_a_damaged_part_is_read_by_nothing(
    published: Path, path: Path, read: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # All of it is checked, not only its last piece.
    monkeypatch.setattr("connectors.warehouse.raw.store._PIECE", 1000)
    before = everything(path)
    # A type change reads only the parts that it needs.
    for part in parts(path)[: 1 if read is new_type else None]:
        whole = part.read_bytes()
        for place in range(0, len(whole), 1499):
            changed = bytearray(whole)
            changed[place] ^= 1 << place % 8
            part.write_bytes(changed)
            with pytest.raises(WarehouseUnusable) as raised:
                read(published)
            assert f"{part} of the raw store cannot be used: its contents have changed since" in str(raised.value)
        part.write_bytes(whole[:100])
        with pytest.raises(WarehouseUnusable, match=f"{part}.* 100 bytes"):
            read(published)
        part.write_bytes(whole)
    assert everything(path) == before
    read(published)


def test_a_part_of_0_2_0_without_a_checksum_is_read(path: Path, tmp_path: Path) -> None:
    with filled(path) as rig:
        rig.do("UPDATE ops.raw_parts SET checksum = NULL")
        publish(rig.connection, tmp_path / "s.duckdb", at=at(99), version="1")
    for read in (query_raw, export_raw, rebuild, new_type, compaction):
        read(tmp_path / "s.duckdb")
    with connect(path) as connection:
        assert Rig(connection).value("SELECT count(checksum) FROM ops.raw_parts WHERE retired_at IS NULL") == 1


def test_a_compacted_store_is_read_by_the_old_snapshot_and_the_new_one(path: Path, tmp_path: Path) -> None:
    query = "SELECT media_id, payload FROM raw_media ORDER BY 1"
    snapshot = tmp_path / "s.duckdb"
    with filled(path) as rig:
        publish(rig.connection, snapshot, at=at(99), version="1")
    before = asked(snapshot, query)
    done = compact(path, now=at(100), pause=lambda _: None)
    assert (done.raw.parts_before, done.raw.parts_after) == (3, 1)
    assert asked(snapshot, query) == before
    with connect(path) as connection:
        publish(connection, tmp_path / "new.duckdb", at=at(101), version="1")
    assert asked(tmp_path / "new.duckdb", query) == before


def test_retention_counts_from_the_run_before_and_a_rebuild_lacks_nothing(path: Path) -> None:
    with filled(path) as rig:
        rig.land(page("w3", 72, COUNTED.replace("2", "3"), OTHER))
        rig.merge()
    done = compact(path, now=at(24 * 400), pause=lambda _: None, keep_raw=timedelta(days=30))
    # The rows with likes 1 and 2 were replaced within their version.
    assert done.raw.rows_deleted == 2
    with connect(path) as connection:
        again = Rig(connection)
        assert again.value(f"SELECT count(gh_payload) FROM {again.kept()}") == 2
        assert again.value(f"SELECT gh_payload FROM {again.kept('core.media_superseded')}") == FIRST


def test_an_export_hands_over_the_parts(snapshot: Path, path: Path, tmp_path: Path) -> None:
    exported = export(snapshot, tmp_path / "out", at=at(100), with_raw=True)
    files = sorted((tmp_path / "out" / "raw-store").iterdir())
    assert [file.read_bytes() for file in files] == [part.read_bytes() for part in parts(path)]
    (raw,) = [table for table in exported["tables"] if table["kind"] == "raw"]
    assert (raw["rows"], len(raw["files"])) == (4, 3)
    result = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert result["tables"][-1]["name"] == "raw-store"
    assert not (tmp_path / "out" / "raw_media").exists()
    shutil.rmtree(tmp_path / "out")
    assert all(table["kind"] != "raw" for table in export(snapshot, tmp_path / "out", at=at(100))["tables"])
