"""Parts of the raw store are combined, and no row that anybody needs is lost, whatever happens meanwhile."""

from datetime import UTC, datetime, timedelta

import pytest

from connectors.warehouse.maintenance import compact_parts as module
from connectors.warehouse.maintenance.compact_parts import compact_parts, group_parts
from connectors.warehouse.raw.parts import find_parts, find_unmerged_parts, part_numbers, read_parts, write_part
from tests.warehouse.rig import Rig, item

Stored = list[tuple[int, int, bytes]]


def stored(rig: Rig) -> Stored:
    tables = read_parts(rig.folder / "raw", merged_seq=rig.seq)
    rows = [row for table in tables for row in table.to_pylist()]
    return [(row["landed"], row["position"], row["payload"]) for row in rows]


def referred(rig: Rig) -> set[tuple[int, int]]:
    places = "raw_landed, raw_position"
    return {*rig.rows(places), *rig.rows(places, "media_versions")}


@pytest.fixture
def days(rig: Rig) -> Rig:
    """Six days, each with a part; an item changes its caption every second day, and its likes daily."""
    for day in range(6):
        rig.full_scan(item("1", caption=f"{day // 2}", like_count=day), item(f"new-{day}"))
        rig.wait(24)
    return rig


def test_all_rows_are_in_one_part_and_the_others_stay_for_a_day(days: Rig) -> None:
    raw, before = days.folder / "raw", stored(days)
    done = compact_parts(days.db, raw, now=days.now, before=None)
    assert (done.parts_before, done.parts_after, done.rows_deleted) == (6, 1, 0)
    assert stored(days) == before
    assert part_numbers(raw) == [1, 2, 3, 4, 5, 6]
    assert [path.name for path in find_parts(raw, merged_seq=6)] == ["raw-000000000000001.parquet"]
    days.full_scan(item("1", caption="new"))
    assert not find_unmerged_parts(raw, merged_seq=7, raw_seq=days.values("raw_seq", "warehouse")[0], inbox=set())
    now = datetime.now(UTC)
    compact_parts(days.db, raw, now=now + timedelta(hours=23), before=None)
    assert part_numbers(raw) == [1, 2, 3, 4, 5, 6, 7]
    compact_parts(days.db, raw, now=now + timedelta(hours=25), before=None)
    assert part_numbers(raw) == [1]
    assert stored(days)[:-1] == before
    assert days.values("raw_seq", "warehouse") == [1]
    assert not find_unmerged_parts(raw, merged_seq=7, raw_seq=1, inbox=set())


def test_old_rows_go_but_not_those_of_items_and_versions(days: Rig) -> None:
    raw, before = days.folder / "raw", stored(days)
    at = days.now - timedelta(days=2)
    done = compact_parts(days.db, raw, now=days.now, before=at)
    # Of the first two captions, the days before the last one.
    assert done.rows_deleted == 2
    assert [row[:2] for row in before if row not in stored(days)] == [(1, 0), (3, 0)]
    assert referred(days) <= {row[:2] for row in stored(days)}
    assert compact_parts(days.db, raw, now=days.now, before=at).rows_deleted == 0
    assert compact_parts(days.db, raw, now=days.now, before=days.now).rows_deleted == 1


@pytest.mark.parametrize("step", [1, 2])
def test_a_compaction_that_broke_off_is_repeated(days: Rig, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    raw, before = days.folder / "raw", stored(days)
    left = step

    def fail(*given: object) -> None:
        nonlocal left
        left -= 1
        if left:
            write_part(*given)  # type: ignore[arg-type]
        else:
            raise OSError

    monkeypatch.setattr(module, "write_part", fail)
    large = sum(path.stat().st_size for path in raw.iterdir()) // 2
    with pytest.raises(OSError):  # noqa: PT011 - it is ours, and says nothing
        compact_parts(days.db, raw, now=days.now, before=None, large=large)
    assert stored(days) == before
    monkeypatch.undo()
    compact_parts(days.db, raw, now=days.now, before=None)
    assert stored(days) == before
    assert len(find_parts(raw, merged_seq=6)) == 1


def test_parts_that_are_large_enough_are_left_out() -> None:
    sizes = dict(enumerate([5, 5, 50, 5, 60, 5, 5]))
    assert list(group_parts(sizes, small=10, large=100)) == [[0, 1], [3], [5, 6]]
    assert list(group_parts({7: 9, 8: 9, 9: 9}, small=10, large=20)) == [[7, 8], [9]]
