from dataclasses import replace
from pathlib import Path

import pytest

from connectors.warehouse.merge.run_counts import MergeStats
from models.partition import Partition
from tests.warehouse.rig import POSTS, STORIES, Item, Rig, Row, Scan, ask, at, minute, posts

GONE = "SELECT media_id, removed_at, removal FROM core.media WHERE removed_at IS NOT NULL ORDER BY media_id"


def test_the_second_scan_that_misses_an_item_removes_it_as_of_the_first(rig: Rig, snapshot: Path) -> None:
    rig.scan(POSTS, "a", 0, posts(1, 2), posts(3))
    assert rig.scan(POSTS, "b", 24, posts(1, 3)) == MergeStats()
    assert rig.rows("SELECT media_id, missing_since, last_seen_at FROM ops.missing") == [
        ("2", minute(24), minute(0, 2))
    ]
    missed = last_seen(rig, snapshot)
    assert missed["2"] == (minute(0, 2), None)
    rig.scan(POSTS, "partial", 30, posts(1), last=False)
    assert last_seen(rig, snapshot) == missed
    assert rig.scan(POSTS, "c", 48, posts(1, 3)).removed == 1
    assert rig.rows(GONE) == [("2", minute(24), "removed")]
    assert rig.value("SELECT count(*) FROM ops.missing") == 0
    assert last_seen(rig, snapshot)["2"] == (minute(0, 2), minute(24))
    assert rig.scan(POSTS, "d", 72, posts(1, 3)) == MergeStats()
    assert rig.rows(GONE) == [("2", minute(24), "removed")]


def last_seen(rig: Rig, snapshot: Path) -> dict[str, Row]:
    """The snapshot's last_seen_at and removed_at of each item."""
    rig.publish(snapshot)
    return {row[0]: row[1:] for row in ask(snapshot, "SELECT media_id, last_seen_at, removed_at FROM media")}


def undecided(rig: Rig) -> list[Row]:
    return rig.rows("SELECT removals_undecided_since FROM core.completed_scans")


def test_a_scan_that_rejected_a_record_marks_nothing_and_the_next_clean_one_decides(rig: Rig, snapshot: Path) -> None:
    nameless: Item = {"id": None, "caption": "was it 2?"}
    rig.scan(POSTS, "a", 0, posts(1, 2, 3))
    assert undecided(rig) == [(None,)]
    rig.scan(POSTS, "b", 24, [*posts(1, 3), nameless])
    rig.scan(POSTS, "c", 48, [*posts(1, 3), nameless])
    assert rig.rows(GONE) == []
    assert undecided(rig) == [(minute(24),)]
    assert last_seen(rig, snapshot)["2"] == (minute(0), None)
    rig.scan(POSTS, "d", 72, posts(1, 3))
    assert (rig.rows(GONE), undecided(rig)) == ([], [(None,)])
    rig.scan(POSTS, "e", 96, [*posts(1, 3), nameless])
    assert (rig.rows(GONE), undecided(rig)) == ([], [(minute(96),)])
    rig.scan(POSTS, "f", 120, posts(1, 3))
    assert rig.rows(GONE) == [("2", minute(72), "removed")]


@pytest.mark.parametrize("merge_each", [True, False])
def test_scans_with_an_expired_token_miss_and_confirm_nothing(rig: Rig, snapshot: Path, *, merge_each: bool) -> None:
    scans = [("a", (1, 2, 3), False), ("b", (1, 3), True), ("c", (1, 3), True), ("d", (1, 3), False), ("e", (1,), True)]
    for day, (name, numbers, expired) in enumerate(scans):
        rig.land(Scan(POSTS, name, at(24 * day)).page(posts(*numbers), at(24 * day), last=True, token_expired=expired))
        if merge_each:
            rig.merge()
    rig.merge()
    assert rig.rows("SELECT media_id, missing_since FROM ops.missing ORDER BY 1") == [("2", at(72)), ("3", None)]
    assert (rig.rows(GONE), undecided(rig)) == ([], [(None,)])
    seen = last_seen(rig, snapshot)
    assert (seen["1"], seen["2"], seen["3"]) == ((at(96), None), (at(0), None), (at(72), None))
    assert rig.scan(POSTS, "f", 120, posts(1)).removed == 1
    assert rig.rows(GONE) == [("2", at(72), "removed")]


def test_a_scan_with_an_expired_token_leaves_open_since_when_removals_are_undecided(rig: Rig) -> None:
    nameless: Item = {"id": None}

    def expired(name: str, hour: float, items: list[Item]) -> None:
        rig.record(Scan(POSTS, name, at(hour)).page(items, at(hour), last=True, token_expired=True))

    rig.scan(POSTS, "a", 0, posts(1, 2))
    expired("b", 24, [*posts(1), nameless])
    assert undecided(rig) == [(None,)]
    rig.scan(POSTS, "c", 48, [*posts(1), nameless])
    expired("d", 72, posts(1))
    expired("e", 96, [*posts(1), nameless])
    assert undecided(rig) == [(minute(48),)]
    rig.scan(POSTS, "f", 120, posts(1))
    assert (rig.rows(GONE), undecided(rig)) == ([], [(None,)])


@pytest.mark.parametrize("merge_each", [True, False])
def test_a_scan_whose_first_pages_came_with_an_expired_token_decides_nothing(rig: Rig, *, merge_each: bool) -> None:
    rig.scan(POSTS, "a", 0, posts(1, 2, 3))
    for hour in (24, 48):
        scan = Scan(POSTS, f"scan {hour}", at(hour))
        rig.land(scan.page(posts(1), at(hour), token_expired=True))
        if merge_each:
            rig.merge()
        rig.record(scan.page(posts(3), at(hour + 1), last=True))
    assert rig.rows("SELECT media_id, missing_since FROM ops.missing") == [("2", None)]
    assert (rig.rows(GONE), undecided(rig)) == ([], [(None,)])
    assert rig.rows("FROM ops.seen") == []


def test_stories_do_not_expire_by_a_scan_with_an_expired_token(rig: Rig) -> None:
    rig.scan(STORIES, "a", 0, posts(1))
    rig.record(Scan(STORIES, "b", at(30)).page([], at(30), last=True, token_expired=True))
    assert rig.rows(GONE) == []
    rig.scan(STORIES, "c", 54, [])
    assert rig.rows(GONE) == [("1", minute(54), "expired")]


def test_a_story_past_its_day_awaits_a_scan_without_rejected_records(rig: Rig) -> None:
    rig.scan(STORIES, "a", 0, posts(1))
    rig.scan(STORIES, "b", 30, [{"id": None}])
    assert rig.rows(GONE) == []
    rig.scan(STORIES, "c", 54, [])
    assert rig.rows(GONE) == [("1", minute(54), "expired")]


def test_a_page_that_cannot_be_read_leaves_removals_undecided(rig: Rig) -> None:
    rig.scan(POSTS, "a", 0, posts(1, 2, 3))
    scan = Scan(POSTS, "b", at(24))
    landing = scan.page(posts(1), at(24))
    assert landing.page is not None
    rig.record(replace(landing, page=replace(landing.page, body="{")), scan.page(posts(2), at(25), last=True))
    assert rig.rows(GONE) == []
    assert undecided(rig) == [(at(25),)]


def test_an_unfinished_scan_that_is_merged_with_a_closed_one_misses_nothing(rig: Rig) -> None:
    rig.scan(POSTS, "a", 0, posts(1, 2))
    rig.land(Scan(POSTS, "b", at(24)).page(posts(1), at(24)), Scan(STORIES, "c", at(24)).page([], at(24), last=True))
    assert rig.merge() == MergeStats()
    assert rig.rows("FROM ops.missing") == []


def test_complete_scans_in_one_merge_are_settled_one_after_the_other(rig: Rig) -> None:
    """A completed scan counts even if its partition was scanned again before the merge."""
    first, second, third, last = (Scan(POSTS, name, at(24 * day)) for day, name in enumerate("abcd"))
    rig.land(
        first.page(posts(1, 2, 3), at(0), last=True),
        second.page(posts(1, 2), at(24), last=True),
        third.page(posts(1), at(48), last=True),
        last.page(posts(3), at(72)),
    )
    counts = rig.merge()
    assert (counts.added, counts.removed, counts.returned) == (3, 1, 1)
    assert rig.rows("SELECT media_id, missing_since FROM ops.missing") == [("2", at(48))]
    assert rig.value("SELECT scan_id FROM core.completed_scans") == "c"


def test_stories_past_their_day_expired_and_younger_ones_were_removed(rig: Rig) -> None:
    def published(hour: float) -> str:
        return at(hour).isoformat()

    stories = [
        {"id": "1", "timestamp": published(-23)},
        {"id": "2", "timestamp": published(-22.9)},
        {"id": "3", "timestamp": "garbage"},
        *posts(4, 5, 6),
    ]
    rig.scan(STORIES, "a", 0, stories)
    assert rig.scan(STORIES, "b", 59 / 60, posts(4, 5, 6)).expired == 1
    assert rig.scan(STORIES, "c", 30, posts(4, 5, 6)).removed == 2
    assert rig.rows(GONE) == [(n, at(1), "expired" if n == "1" else "removed") for n in "123"]


def test_the_age_of_a_story_without_a_time_counts_from_its_first_sighting(rig: Rig) -> None:
    rig.scan(STORIES, "a", 0, posts(1))
    rig.scan(STORIES, "b", 12, posts(1, 2, 3))
    rig.scan(STORIES, "c", 24, posts(3))
    assert rig.rows(GONE) == [("1", minute(24), "expired")]
    rig.scan(STORIES, "d", 48, posts(3))
    assert rig.rows(GONE) == [("1", minute(24), "expired"), ("2", minute(24), "removed")]


@pytest.mark.parametrize("last", [True, False], ids=["closed", "interrupted"])
def test_an_item_that_any_scan_sees_again_must_be_missed_twice_again(rig: Rig, *, last: bool) -> None:
    rig.scan(POSTS, "a", 0, posts(1, 2, 3, 4))
    rig.scan(POSTS, "b", 24, posts(1))
    assert rig.scan(POSTS, "c", 48, posts(1, 2, 3, 4), last=last) == MergeStats()
    assert rig.value("SELECT count(*) FROM ops.missing") == 0
    assert rig.scan(POSTS, "d", 72, posts(1)).removed == 0
    assert rig.scan(POSTS, "e", 96, posts(1)).removed == 3
    assert rig.rows(GONE) == [(n, minute(72), "removed") for n in "234"]


@pytest.mark.parametrize("partition", [POSTS, STORIES], ids=str)
def test_a_second_scan_within_the_hour_confirms_nothing(rig: Rig, partition: Partition) -> None:
    """A cause that truncates one listing may also truncate the next one."""
    rig.scan(partition, "a", 0, posts(1, 2, 3))
    rig.scan(partition, "b", 1, [])
    for number in range(3):
        assert rig.scan(partition, f"again-{number}", 1.1 + number / 100, []) == MergeStats()
    assert rig.rows("SELECT DISTINCT missing_since FROM ops.missing") == [(minute(1),)]
    assert rig.scan(partition, "c", 1 + 61 / 60, []).removed == 3
    assert rig.rows(GONE) == [(n, minute(1), "removed") for n in "123"]


def test_the_second_scan_must_begin_an_hour_later(rig: Rig) -> None:
    rig.scan(POSTS, "a", 0, posts(1, 2))
    rig.scan(POSTS, "b", 1, [])
    slow = Scan(POSTS, "slow", at(1.1))
    rig.land(slow.page([], at(1.1)), slow.page([], at(9), last=True))
    assert rig.merge() == MergeStats()


def test_a_second_scan_that_seems_earlier_confirms_nothing(rig: Rig) -> None:
    """The clock was ahead when the posts were first missed, and is now right."""
    rig.scan(POSTS, "a", 0, posts(1, 2))
    rig.scan(POSTS, "ahead", 9000, [])
    assert rig.scan(POSTS, "b", 1, []) == MergeStats()
    assert rig.scan(POSTS, "c", 1.5, []) == MergeStats()
    assert rig.scan(POSTS, "d", 3, []).removed == 2
    assert rig.rows(GONE) == [("1", minute(1), "removed"), ("2", minute(1), "removed")]


def test_removals_follow_the_order_of_scans_and_not_their_times(rig: Rig) -> None:
    rig.scan(POSTS, "a", 0, posts(1, 2, 3))
    rig.scan(POSTS, "ahead", 9000, posts(1, 2, 3, 4))
    assert rig.scan_twice(POSTS, "b", 24, posts(1, 2, 4)).removed == 1
    assert rig.rows("SELECT scan_id FROM core.completed_scans") == [("b-1",)]
    assert rig.rows("SELECT media_id FROM core.media WHERE removed_at IS NOT NULL") == [("3",)]
