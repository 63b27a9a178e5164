"""Parts of the raw store are combined, and no row that anybody needs is lost, whatever happens meanwhile."""

from datetime import timedelta

import pytest

from connectors.warehouse.maintenance.compact_parts import compact_parts, groups
from connectors.warehouse.raw.parts import find_unmerged_parts, part_numbers, read_parts
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


def test_all_rows_are_in_one_part_also_after_the_next_merge(days: Rig) -> None:
    raw, before = days.folder / "raw", stored(days)
    for rows in (0, 1):
        done = compact_parts(days.db, raw, before=None)
        assert (done.parts_before, done.parts_after, done.rows_deleted) == (2 if rows else 6, 1, 0)
        assert stored(days)[: len(before)] == before
        assert (part_numbers(raw), days.values("raw_seq", "warehouse")) == ([1], [1])
        days.full_scan(item("1", caption=f"new {rows}"))
        assert find_unmerged_parts(raw, merged_seq=days.seq, raw_seq=days.seq, inbox=set()) == []


def test_old_rows_go_but_not_those_of_items_and_versions(days: Rig) -> None:
    raw, before = days.folder / "raw", stored(days)
    at = days.now - timedelta(days=2)
    done = compact_parts(days.db, raw, before=at)
    # Of the first two captions, the days before the last one.
    assert done.rows_deleted == 2
    assert [row[:2] for row in before if row not in stored(days)] == [(1, 0), (3, 0)]
    assert referred(days) <= {row[:2] for row in stored(days)}
    assert compact_parts(days.db, raw, before=at).rows_deleted == 0
    assert compact_parts(days.db, raw, before=days.now).rows_deleted == 1


def test_parts_that_are_large_enough_are_left_out() -> None:
    assert list(groups([5, 5, 50, 5, 60, 5, 5], [False] * 7, small=10, large=100)) == [[0, 1], [3], [5, 6]]
    assert list(groups([5, 5, 50, 5], [False, False, True, False], small=10, large=100)) == [[0, 1, 2, 3]]
    assert list(groups([9, 9, 9], [False] * 3, small=10, large=20)) == [[0, 1], [2]]
