"""The raw store for readers: `raw_media` in queries, and the parts in an export."""

import json
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.maintenance.compact import compact_store, rewrite_file
from connectors.warehouse.raw.compaction import CompactedParts
from connectors.warehouse.snapshot.export import export
from connectors.warehouse.snapshot.reader import open_snapshot
from connectors.warehouse.storage.connection import Connection, connect
from connectors.warehouse.storage.errors import QueryError
from tests.warehouse.rig import POSTS, T0, Rig, Row, Scan, ask, at, refusal

FIRST = '{ "id":"1", "caption" : "\\u00e9 é", "likes":1.0 }'
SECOND = '{"caption":"b","id":"1","likes":1}'
COUNTED = '{"caption":"b","id":"1","likes":2}'
OTHER = '{"id":"2"}'


def land(connection: Connection, number: int, *items: str) -> None:
    """Merge a page of these items, on a day."""
    rig, scan = Rig(connection), Scan(POSTS, f"w{number}", at(24 * number))
    rig.seq = number
    text = f'{{"items":[{", ".join(items)}],"next_cursor":null}}'
    rig.record(scan.page([{}] * len(items), at(24 * number), last=True, text=text))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a warehouse and its snapshot.

    An item has two versions, the last of which was counted again, and another a single one.
    """
    folder = tmp_path_factory.mktemp("made")
    with connect(folder / "warehouse.duckdb", new_id=lambda: "an-id") as connection:
        for number, items in enumerate(((FIRST, OTHER), (SECOND, OTHER), (COUNTED, OTHER))):
            land(connection, number, *items)
        Rig(connection).publish(folder / "s.duckdb")
    return folder


@pytest.fixture
def snapshot(made: Path) -> Path:
    """The snapshot, for tests that only read."""
    return made / "s.duckdb"


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    """A copy of the warehouse."""
    return shutil.copytree(made, tmp_path / "copy") / "warehouse.duckdb"


def publish(path: Path) -> Path:
    with connect(path) as connection:
        Rig(connection).publish(path.with_name("s.duckdb"))
    return path.with_name("s.duckdb")


def asked(snapshot: Path, query: str) -> list[Row]:
    with open_snapshot(snapshot, with_raw=True) as opened:
        return [row for batch in opened.user_query(query).batches for row in batch]


def parts(path: Path) -> list[Path]:
    return sorted((path.parent / "raw" / "an-id" / "media").iterdir())


def all_rows(files: list[Path]) -> list[Row]:
    with duckdb.connect() as db:
        return db.execute("SELECT payload FROM read_parquet(?) ORDER BY landed", [list(map(str, files))]).fetchall()


def test_each_merge_stores_only_new_and_changed_items(path: Path) -> None:
    assert all_rows(parts(path)) == [(FIRST,), (OTHER,), (SECOND,), (COUNTED,)]
    with connect(path) as connection:
        land(connection, 9, '{"id":"1","likes":2, "caption":"b"}', OTHER)
        assert len(parts(path)) == 3
        rig, kept = Rig(connection), "SELECT caption, gh_payload FROM {}"
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


def test_a_missing_part_is_reported_in_one_line(path: Path) -> None:
    snapshot, gone = publish(path), parts(path)[1]
    gone.unlink()
    message = refusal(lambda: asked(snapshot, "FROM raw_media"))
    assert str(gone) in message
    assert "Fix: " in message
    assert ask(snapshot, "SELECT count(*) FROM media") == [(2,)]


def query_raw(path: Path) -> None:
    asked(publish(path), "SELECT count(*) FROM raw_media")


def export_raw(path: Path) -> None:
    export(publish(path), path.with_name("out"), at=at(100), with_raw=True)


def rebuild(path: Path) -> None:
    with connect(path) as connection:
        Rig(connection).rebuild()


def compact(path: Path, *, now: datetime, keep: timedelta | None = None) -> CompactedParts:
    with connect(path) as connection:
        parts = compact_store(connection, now=now, keep=keep)
    rewrite_file(path)
    return parts


def compaction(path: Path) -> None:
    compact(path, now=at(100))


def new_type(path: Path) -> None:
    """Merge a value that widens a column, so that the column of stored items is decoded again."""
    with connect(path) as connection:
        land(connection, 100, '{"id":"3","caption":["a"]}')


# tests/e2e/faults/test_e2e_files.py has the commands of the others.
@pytest.mark.parametrize("read", [compaction, new_type])
def test_a_damaged_part_is_read_by_nothing(
    path: Path, read: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def everything() -> dict[str, list[Row]]:
        with connect(path) as connection:
            return Rig(connection).everything("schema_name = 'core' OR table_name = 'raw_parts'")

    # All of it is checked, not only its last piece.
    monkeypatch.setattr("connectors.warehouse.raw.store._PIECE", 1000)
    before = everything()
    # A type change reads only the parts that it needs.
    for part in parts(path)[: 1 if read is new_type else None]:
        whole = part.read_bytes()
        for place in range(0, len(whole), 1499):
            changed = bytearray(whole)
            changed[place] ^= 1 << place % 8
            part.write_bytes(changed)
            message = refusal(lambda: read(path))
            assert f"{part} of the raw store cannot be used: its contents have changed since" in message
        part.write_bytes(whole[:100])
        message = refusal(lambda: read(path))
        assert str(part) in message
        assert " 100 bytes" in message
        part.write_bytes(whole)
    assert everything() == before
    read(path)


def test_a_compacted_store_is_read_by_the_old_snapshot_and_the_new_one(path: Path) -> None:
    query = "SELECT media_id, payload FROM raw_media ORDER BY 1"
    before = asked(publish(path), query)
    done = compact(path, now=at(100))
    assert (done.parts_before, done.parts_after) == (3, 1)
    assert asked(path.with_name("s.duckdb"), query) == before
    assert asked(publish(path), query) == before


def test_retention_counts_from_the_run_before_and_a_rebuild_lacks_nothing(path: Path) -> None:
    with connect(path) as connection:
        land(connection, 3, COUNTED.replace("2", "3"), OTHER)
    done = compact(path, now=at(24 * 400), keep=timedelta(days=30))
    # The rows with likes 1 and 2 were replaced within their version.
    assert done.rows_deleted == 2
    with connect(path) as connection:
        rig = Rig(connection)
        assert rig.value(f"SELECT count(gh_payload) FROM {rig.kept()}") == 2
        assert rig.value(f"SELECT gh_payload FROM {rig.kept('core.media_superseded')}") == FIRST


def test_an_export_hands_over_the_parts(snapshot: Path, tmp_path: Path) -> None:
    exported = export(snapshot, tmp_path / "out", at=at(100), with_raw=True)
    files = sorted((tmp_path / "out" / "raw-store").iterdir())
    assert [file.read_bytes() for file in files] == [part.read_bytes() for part in parts(snapshot)]
    (raw,) = [table for table in exported["tables"] if table["kind"] == "raw"]
    assert (raw["rows"], len(raw["files"])) == (4, 3)
    result = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert result["tables"][-1]["name"] == "raw-store"
    assert not (tmp_path / "out" / "raw_media").exists()
    shutil.rmtree(tmp_path / "out")
    assert all(table["kind"] != "raw" for table in export(snapshot, tmp_path / "out", at=at(100))["tables"])
