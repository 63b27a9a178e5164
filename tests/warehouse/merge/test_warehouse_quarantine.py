"""A record in quarantine is one row, however often it occurs, and is removed if it has not occurred for long."""

import pytest

from connectors.warehouse.maintenance.housekeeping import delete_quarantined
from models.page_commit import RejectedRecord
from models.partition import CATALOGUE
from tests.warehouse.rig import POSTS, STORIES, Item, Rig, Row, Scan, account, at, minute


def item(day: int, caption: str = "no id") -> Item:
    """An item whose count and signature differ at every sync."""
    return {"caption": caption, "like_count": day, "media_url": f"https://x/a.jpg?oe={day}&x=1"}


def held(rig: Rig, columns: str = "seen_at, last_seen_at") -> list[Row]:
    return rig.rows(f"SELECT {columns} FROM core.quarantine ORDER BY seen_at, payload")


def test_an_item_without_an_id_that_comes_at_every_sync_is_one_record(rig: Rig) -> None:
    counts = [rig.scan(POSTS, f"w{day}", 24 * day, [{"id": "1"}, item(day)]) for day in range(5)]
    assert held(rig) == [(minute(0), minute(96))]
    assert [count.quarantined for count in counts] == [1, 0, 0, 0, 0]
    assert held(rig, "page, position, run_id, correlation_id, payload ->> 'like_count'") == [
        (1, 1, "run-1", "w0-1", "0")
    ]


def test_the_position_and_number_of_occurrences_do_not_matter(rig: Rig) -> None:
    rig.scan(POSTS, "w", 0, [item(1), item(2)], [{"id": "1"}, item(3)])
    assert held(rig, "page, position, seen_at, last_seen_at") == [(1, 0, minute(0), minute(0, 2))]


def test_other_content_another_surface_and_another_reason_are_other_records(rig: Rig) -> None:
    rig.scan(POSTS, "w", 0, [item(1), item(1, "other")])
    rig.scan(STORIES, "s", 1, [item(1)])
    text = '{"caption":"no id","like_count":1,"media_url":"https://x/a.jpg?oe=1&x=1"}'
    scan = Scan(CATALOGUE, "c", at(2))
    rig.record(scan.page([account()], at(2), last=True, rejected=(RejectedRecord(0, "broken", text),)))
    assert len(held(rig)) == 4


@pytest.mark.parametrize(("hours", "left"), [(24, 2), (25, 1), (49, 0)])
def test_a_record_last_received_long_ago_is_deleted(rig: Rig, hours: float, left: int) -> None:
    rig.scan(POSTS, "w", 0, [item(0), item(0, "other")])
    rig.scan(POSTS, "x", 24, [item(1)])
    rig.scan(POSTS, "y", 48, [item(1, "other")])
    assert rig.call(delete_quarantined, before=at(hours)) == 2 - left
    assert len(held(rig)) == left
