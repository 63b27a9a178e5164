"""The raw store for readers: `raw_media` in queries, and `raw_versions` in an export."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from connectors.warehouse.queries.export import export
from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.raw.parts import read_parts
from connectors.warehouse.storage.errors import QueryError
from tests.warehouse.days import POSTS, Days, Row, ask, at, minute, refusal

ONE, OTHER = {"id": "1", "caption": "\u00e9"}, {"id": "2"}


@pytest.fixture
def snapshot(days: Days) -> Path:
    """A snapshot of an item with two versions, the last of which was counted again, and of another with one."""
    for hour, item in ((0, ONE), (24, ONE | {"caption": "b"}), (48, ONE | {"caption": "b", "likes": 2})):
        days.scan(POSTS, hour, [item, OTHER])
    return days.publish()


def asked(snapshot: Path, query: str) -> list[Row]:
    with open_snapshot(snapshot, with_raw=True) as opened:
        return [row for batch in opened.user_query(query).batches for row in batch]


def test_raw_media_has_the_newest_bytes_of_each_item(snapshot: Path) -> None:
    with open_snapshot(snapshot, with_raw=True) as opened:
        found = opened.query("FROM Raw_Media ORDER BY media_id")
    assert [*found[0]] == ["account_id", "surface", "media_id", "seen_at", "run_id", "correlation_id", "payload"]
    assert [(row["media_id"], row["payload"], row["seen_at"]) for row in found] == [
        ("1", '{"id": "1", "caption": "b", "likes": 2}', minute(48)), ("2", '{"id": "2"}', minute(0)),
    ]  # fmt: skip
    joined = "SELECT m.caption, r.payload->>'likes' FROM media AS m JOIN raw_media AS r USING (media_id) ORDER BY 1"
    assert asked(snapshot, joined) == [("b", "2"), (None, None)]
    assert asked(snapshot, "SELECT count(*) FROM raw_versions") == [("4",)]


def test_a_query_with_raw_media_opens_no_other_file(snapshot: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for query in (
        f"SELECT (SELECT count(*) FROM raw_media), * FROM read_csv('{tmp_path}/secret.csv')",
        f"SELECT * FROM raw_media, read_text('{tmp_path}/secret.csv')",
        "SELECT * FROM raw_media, glob('/etc/*')",
    ):
        with pytest.raises(QueryError):
            asked(snapshot, query)


def test_a_missing_store_is_reported_in_one_line(snapshot: Path) -> None:
    (snapshot.parent / "raw").rename(snapshot.parent / "elsewhere")
    message = refusal(lambda: asked(snapshot, "FROM raw_media"))
    assert f"{snapshot.parent / 'raw'} of the raw store cannot be read" in message
    assert "Fix: " in message
    assert ask(snapshot, "SELECT count(*) FROM media") == [(2,)]


def test_a_damaged_part_is_read_by_no_query_no_export_and_no_rebuild(snapshot: Path, tmp_path: Path) -> None:
    part = min((snapshot.parent / "raw").iterdir())
    data = bytearray(part.read_bytes())
    group = pq.read_metadata(part).row_group(0)
    payload = group.column(pq.read_schema(part).get_field_index("payload"))
    data[payload.data_page_offset + payload.total_compressed_size - 1] ^= 1
    part.chmod(0o600)
    part.write_bytes(data)
    # No wrong usage, as a QueryError is.
    message = refusal(lambda: asked(snapshot, "SELECT max(payload) FROM raw_media"))
    assert "CRC checksum verification failed" in message
    assert "Fix: `gramhouse doctor`" in message
    assert "checksum" in refusal(lambda: export(snapshot, tmp_path / "out", with_raw=True))
    assert "checksum" in refusal(lambda: [*read_parts(part.parent, merged_seq=9)])
    assert not (tmp_path / "out").exists()


def test_each_landing_is_read_once_after_a_compaction_and_none_that_came_later(days: Days, snapshot: Path) -> None:
    before = asked(snapshot, "FROM raw_versions ORDER BY landed, position")
    parts = sorted((days.rig.folder / "raw").iterdir())
    # As a compaction leaves it while readers may still use the parts that it replaced.
    whole = pq.ParquetWriter(parts[0].with_name("whole"), pq.read_schema(parts[0]))
    for part in parts:
        whole.write_table(pq.read_table(part))
    whole.close()
    shutil.move(parts[0].with_name("whole"), parts[0])
    days.scan(POSTS, 72, [ONE, OTHER])
    assert asked(snapshot, "FROM raw_versions ORDER BY landed, position") == before


def test_an_export_hands_over_all_versions(snapshot: Path, tmp_path: Path) -> None:
    tables = {table["name"]: table for table in export(snapshot, tmp_path / "out", with_raw=True)[1]}
    assert (tables["raw_versions"]["kind"], tables["raw_versions"]["rows"]) == ("raw", 4)
    rows = pq.read_table(tmp_path / "out" / "raw_versions.parquet").to_pylist()
    assert rows[0]["payload"] == '{"id": "1", "caption": "\\u00e9"}'
    assert max(row["seen_at"] for row in rows) == at(48 + 1 / 60)
    assert "raw_versions" not in {table["name"] for table in export(snapshot, tmp_path / "out")[1]}
