"""Compacting: the same rows in a small, sorted file and in few parts, or what was there unchanged."""

import errno
import os
import shutil
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.maintenance import compact_file, compact_parts
from connectors.warehouse.maintenance.compact_file import rewrite_file
from connectors.warehouse.maintenance.compact_parts import group_parts
from connectors.warehouse.raw.parts import SCHEMA, find_parts, find_unmerged_parts, list_parts, write_part
from models.feeds import media
from models.files import WarehouseUnusable
from tests.warehouse.rig import BEN, POSTS, STORIES, Rig, at, contents, item, opened

COLUMNS = (
    "SELECT schema_name, table_name, column_name, data_type, is_nullable, column_default, comment"
    " FROM duckdb_columns() WHERE NOT internal ORDER BY schema_name, table_name, column_index"
)


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A warehouse with unordered items, a column of a field, a user's view, and much free space."""
    folder = tmp_path / "full"
    folder.mkdir()
    posts = [
        item(f"{n:04}", caption=f"{n}" * 50, like_count=n, pace="slow", timestamp=at(-(n * 7919 % 4000)).isoformat())
        for n in range(1000)
    ]
    with opened(folder) as rig:
        for partition in (media(BEN, "posts"), STORIES, POSTS):
            rig.full_scan(*posts, {"id": "without a time"}, partition=partition)
        rig.db.execute("CREATE VIEW core.mine AS SELECT count(*) AS items FROM core.media")
        rig.db.execute("COMMENT ON COLUMN core.media.pace IS 'Discovered: it''s /pace.'")
        rig.db.execute("CHECKPOINT")
        rig.db.execute("DELETE FROM core.media WHERE media_id >= '0300'")
    shutil.rmtree(folder / "raw")
    return folder / "warehouse.duckdb"


def everything(path: Path) -> tuple[object, ...]:
    with duckdb.connect(str(path), read_only=True) as db:
        return contents(db), db.execute(COLUMNS).fetchall(), db.execute("FROM core.mine").fetchall()


def test_all_data_and_permissions_are_kept_in_a_smaller_sorted_file(full: Path, tmp_path: Path) -> None:
    before, size, inode = everything(full), full.stat().st_size, full.stat().st_ino
    full.chmod(0o640)
    link = tmp_path / "link.duckdb"
    link.symlink_to(full)
    rewrite_file(link)
    assert everything(full) == before
    assert full.stat().st_size < size
    with duckdb.connect(str(full), read_only=True) as db:
        for table, keys in (("media", "published_at DESC, media_id"), ("media_counts", "media_id, metric")):
            stored = db.execute(f"FROM core.{table}").fetchall()
            assert stored == db.execute(f"FROM core.{table} ORDER BY account_id, surface, {keys}").fetchall()
    assert link.is_symlink()
    assert full.stat().st_ino != inode
    assert stat.S_IMODE(full.stat().st_mode) == 0o640
    assert [beside.name for beside in full.parent.iterdir()] == [full.name]


def test_if_it_fails_the_file_is_unchanged_and_not_written_to(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opens, refused = f"import duckdb; duckdb.connect({str(full)!r})", list[bool]()

    def full_disk(_: Path) -> None:
        done = subprocess.run([sys.executable, "-c", opens], capture_output=True, text=True, check=False)
        refused.append("Could not set lock" in done.stderr)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = full.read_bytes(), full.stat().st_ino
    monkeypatch.setattr(compact_file, "sync", full_disk)
    with pytest.raises(WarehouseUnusable, match="No space left on device"):
        rewrite_file(full)
    assert refused == [True]
    assert (full.read_bytes(), full.stat().st_ino) == before
    assert [beside.name for beside in full.parent.iterdir()] == [full.name]


def test_what_another_program_has_just_written_is_not_lost(full: Path) -> None:
    with duckdb.connect(str(full)) as db:
        db.execute("CREATE TABLE core.theirs AS SELECT 1 AS n")
        killed = {path: path.read_bytes() for path in full.parent.iterdir() if path.is_file()}
    for path, data in killed.items():
        path.write_bytes(data)
    with pytest.raises(WarehouseUnusable, match="another program has just written to it"):
        rewrite_file(full)
    assert {path: path.read_bytes() for path in full.parent.iterdir()} == killed


def stored(rig: Rig) -> list[tuple[int, int, bytes]]:
    return [(row["landed"], row["position"], row["payload"]) for row in rig.raw()]


def compact(rig: Rig, before: datetime | None = None, *, hours: float = 0, **sizes: int) -> dict[str, int]:
    """Compact the parts, some hours from now: the age of a part is that of its file."""
    now = datetime.now(UTC) + timedelta(hours=hours)
    return compact_parts.compact_parts(rig.db, rig.folder / "raw", now=now, before=before, **sizes)


@pytest.fixture
def days(rig: Rig) -> Rig:
    """Six days, each with a part; an item changes its caption every second day, and its likes daily."""
    for day in range(6):
        new = [] if day == 2 else [item(f"new-{day}")]
        rig.full_scan(*new, item("1", caption=f"{day // 2}", like_count=day))
        rig.wait(24)
    return rig


def test_all_rows_are_in_one_part_and_the_others_stay_for_a_day(days: Rig) -> None:
    raw, before = days.folder / "raw", stored(days)
    # As one that breaks off: only the first parts are combined.
    compact(days, large=sum(path.stat().st_size for path in raw.iterdir()) // 2)
    assert stored(days) == before
    assert 1 < len(find_parts(raw, merged_seq=6)) < 6
    done = compact(days)
    assert (done["parts_after"], done["rows_deleted"]) == (1, 0)
    assert stored(days) == before
    assert [*list_parts(raw)] == [1, 2, 3, 4, 5, 6]
    assert [path.name for path in find_parts(raw, merged_seq=6).values()] == ["raw-000000000000001.parquet"]
    days.full_scan(item("1", caption="new"))
    assert days.values("raw_seq", "warehouse") == [7]
    compact(days, hours=23)
    assert [*list_parts(raw)] == [1, 2, 3, 4, 5, 6, 7]
    compact(days, hours=25)
    assert [*list_parts(raw)] == [1]
    assert stored(days)[:-1] == before
    assert not find_unmerged_parts(raw, merged_seq=7, raw_seq=7, inbox=set())
    with pytest.raises(WarehouseUnusable, match="newer"):
        find_unmerged_parts(raw, merged_seq=6, raw_seq=6, inbox=set())
    with pytest.raises(WarehouseUnusable, match="lacks"):
        find_unmerged_parts(raw, merged_seq=8, raw_seq=8, inbox=set())
    # As after an erasure, when an older raw store is restored alone.
    with pytest.raises(WarehouseUnusable, match="rows that the warehouse does not have there"):
        find_unmerged_parts(raw, merged_seq=7, raw_seq=0, inbox=set())
    assert not find_unmerged_parts(raw, merged_seq=7, raw_seq=0, inbox=set(), is_erasing=True)


def test_the_last_landing_of_a_merge_is_known_and_what_the_code_before_knew_is_enough(rig: Rig) -> None:
    raw, scan = rig.folder / "raw", rig.begin()
    scan.page(item("1"))
    scan.close(item("2"))
    rig.merge()
    assert rig.values("raw_seq", "warehouse") == [2]
    with pytest.raises(WarehouseUnusable, match="lacks"):
        find_unmerged_parts(raw, merged_seq=3, raw_seq=3, inbox=set())
    # It was the number of the last part, also if an erasure had left it without rows.
    write_part(raw, 3, SCHEMA.empty_table())
    assert not find_unmerged_parts(raw, merged_seq=3, raw_seq=3, inbox=set())


def test_old_rows_go_but_not_those_of_items_and_versions(days: Rig) -> None:
    before, at = stored(days), days.now - timedelta(days=2)
    # Of the first two captions, the days before the last one; also of large parts.
    assert compact(days, at, small=1)["rows_deleted"] == 2
    assert [row[:2] for row in before if row not in stored(days)] == [(1, 1), (3, 0)]
    places = "raw_landed, raw_position"
    assert {*days.rows(places), *days.rows(places, "media_versions")} <= {row[:2] for row in stored(days)}
    assert compact(days, at)["rows_deleted"] == 0
    assert compact(days, days.now)["rows_deleted"] == 1


def test_a_part_that_was_combined_stays_so_without_the_rows_of_its_last_landing(days: Rig) -> None:
    raw = days.folder / "raw"
    parts = [*find_parts(raw, merged_seq=6).values()]
    compact(days, days.now, large=sum(path.stat().st_size for path in parts[:3]))
    assert parts[2] not in find_parts(raw, merged_seq=6).values()


def test_parts_that_are_large_enough_are_left_out() -> None:
    sizes = dict(enumerate([5, 5, 50, 5, 60, 5, 5]))
    assert list(group_parts(sizes, small=10, large=100)) == [[0, 1], [3], [5, 6]]
    assert list(group_parts({7: 9, 8: 9, 9: 9}, small=10, large=20)) == [[7, 8], [9]]
