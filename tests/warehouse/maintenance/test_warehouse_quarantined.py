"""A rebuild decodes quarantined media items: none is lost, and none overwrites newer data."""

import json
from dataclasses import replace

import pytest

from connectors.warehouse.maintenance import quarantined
from connectors.warehouse.maintenance.quarantined import count_quarantined, import_batch
from connectors.warehouse.merge import merge as merge_module
from connectors.warehouse.raw.parts import confirm_part
from connectors.warehouse.storage.connection import Connection
from models.api import read_media_page
from models.mapping import BUILT_IN
from models.page_commit import Landing, RejectedRecord
from models.partition import CATALOGUE
from tests.warehouse.rig import POSTS, STORIES, Item, Rig, Row, Scan, account, at, minute

NO_ID = "The item has no id that gramhouse knows."
WITH_UUID = replace(BUILT_IN, media_id=(*BUILT_IN.media_id, "/uuid"))


def again(rig: Rig, batch_bytes: int = 2**24) -> tuple[int, int, int]:
    """Import the quarantine; return the numbers of records that became rows, were outdated, and remain."""
    after, rows, outdated = None, 0, 0
    rig.copy_open_scans()
    while True:
        with rig.connection.begin():
            done = import_batch(rig.connection, "media", after=after, take=rig.take, batch_bytes=batch_bytes)
            left = count_quarantined(rig.connection)
        confirm_part(rig.connection)
        if done is None:
            return rows, outdated, left
        after, rows, outdated = done.last, rows + done.rows, outdated + done.outdated


def again_mapped(rig: Rig, batch_bytes: int = 2**24) -> tuple[int, int, int]:
    rig.rebuild(WITH_UUID)
    return again(rig, batch_bytes)


def quarantine(rig: Rig) -> list[Row]:
    return rig.rows("SELECT * EXCLUDE (digest) FROM core.quarantine ORDER BY ALL")


def media(rig: Rig, columns: str = "media_id, caption") -> list[Row]:
    return rig.rows(f"SELECT {columns} FROM core.media ORDER BY media_id")


def post(uuid: object, caption: str = "x", **more: object) -> Item:
    return {"uuid": uuid, "caption": caption, **more}


def test_with_the_same_mapping_nothing_leaves_and_nothing_is_touched(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [{"id": "1"}, post("a"), None, "text", 7])
    before = rig.everything()
    assert again(rig) == (0, 0, 4)
    assert rig.everything() == before


def test_a_record_that_has_an_id_under_the_new_mapping_becomes_a_row(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [{"id": "1"}], [post("a", like_count=3, odd=True), post(None), {"caption": "no id"}])
    stayed = [row for row in quarantine(rig) if '"uuid":"a"' not in row[6]]
    assert again_mapped(rig) == (1, 0, 2)
    assert quarantine(rig) == stayed
    times = "first_seen_at, written_at, changed_at, content_changed_at, removed_at"
    seen = minute(0, 2)
    assert rig.rows(f"SELECT caption, like_count, odd, {times} FROM core.media WHERE media_id = 'a'") == [
        ("x", 3, True, seen, seen, seen, seen, None)
    ]
    assert json.loads(rig.value(f"SELECT gh_payload FROM {rig.kept()} WHERE media_id = 'a'")) == post(
        "a", like_count=3, odd=True
    )
    assert rig.rows("SELECT metric, value, observed_at FROM core.media_metrics") == [("like_count", 3, seen)]


def test_a_record_with_a_long_integer_becomes_a_row_and_one_that_is_not_json_stays(rig: Rig) -> None:
    long = '{"items":[{"uuid":"a","n":' + "7" * 5_000 + '}],"next_cursor":null}'
    not_json = RejectedRecord(0, "The record is not JSON.", '{"uuid":"b","n":NaN}')
    scan = Scan(POSTS, "p", at(0))
    rig.record(scan.page([None], at(0), text=long), scan.page([None], at(1), rejected=(not_json,), last=True))
    kept = [row for row in quarantine(rig) if row[0] != NO_ID]
    assert again_mapped(rig)[:2] == (1, 0)
    assert media(rig, "media_id") == [("a",)]
    assert [row for row in quarantine(rig) if row[0] != NO_ID] == kept


def test_a_record_with_an_unpaired_surrogate_stays(rig: Rig) -> None:
    page = read_media_page(rb'{"items":[{"id":"a\ud83d"}],"next_cursor":null}')
    rig.record(Scan(POSTS, "p", at(0)).page([{}], at(1), last=True, text=page.body, rejected=page.rejected))
    assert again_mapped(rig) == (0, 0, 1)


def test_an_import_has_the_same_result_as_the_new_mapping_from_the_start(rig: Rig) -> None:
    pages = [[post("a", "1"), {"id": "b"}], [post("c"), {"caption": "no id"}]]

    def days() -> None:
        for day in range(2):
            rig.scan(POSTS, f"p{day}", 24 * day, *pages)
            pages[0][0] = post("a", "2")

    days()
    again_mapped(rig)
    columns = "media_id, caption, first_seen_at, changed_at, removed_at, payload_hash, overflow"
    versions = "SELECT * EXCLUDE (raw_landed) FROM core.media_superseded"
    found = media(rig, columns), quarantine(rig), rig.rows(versions)
    for table in ("core.media", "core.quarantine", "core.media_superseded", "core.completed_scans"):
        rig.do(f"DELETE FROM {table}")
    pages[0][0] = post("a", "1")
    days()
    assert (media(rig, columns), quarantine(rig), rig.rows(versions)) == found
    assert len(found[0]) == 3


def test_an_item_seen_later_is_not_overwritten(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [post("a", "old")])
    rig.scan(POSTS, "q", 24, [{"id": "a", "caption": "new"}])
    rig.rebuild(WITH_UUID)
    before = media(rig, "*")
    assert again(rig) == (0, 1, 0)
    assert media(rig, "*") == before
    assert quarantine(rig) == []


def test_an_item_seen_later_without_a_change_is_not_overwritten(rig: Rig) -> None:
    """Its row was written before the record was rejected; only the later scan has seen it since."""
    rig.scan(POSTS, "p", 0, [{"id": "a", "caption": "as ever"}])
    rig.scan(POSTS, "q", 24, [{"id": "a", "caption": "as ever"}, post("a", "for a moment")])
    assert again_mapped(rig) == (0, 1, 0)
    assert media(rig) == [("a", "as ever")]


def test_an_import_restores_an_item_marked_removed(rig: Rig) -> None:
    items = [{"id": str(n)} for n in range(3)]
    rig.scan(POSTS, "p", 0, [{"id": "a", "caption": "old"}, *items])
    assert rig.scan(POSTS, "q", 24, [post("a", "new"), *items]).removed == 0
    assert rig.scan_twice(POSTS, "r", 48, items).removed == 1
    again_mapped(rig)
    assert rig.rows("SELECT caption, removed_at FROM core.media WHERE media_id = 'a'") == [("new", None)]
    rig.scan(POSTS, "s", 72, [post("a", "new"), *items])
    assert rig.value("SELECT count(*) FROM core.media WHERE removed_at IS NULL") == 4


def last_seen(rig: Rig) -> list[Row]:
    return rig.rows("SELECT media_id, missing_since, last_seen_at FROM ops.missing ORDER BY ALL")


def test_an_imported_item_was_last_seen_when_it_was_rejected(rig: Rig) -> None:
    for day in range(3):
        rig.scan(STORIES, f"s{day}", 24 * day, [post(f"story-{day}")])
    again_mapped(rig)
    assert last_seen(rig) == [("story-0", None, minute(0)), ("story-1", None, minute(24))]
    assert rig.scan(STORIES, "s3", 72, [post("story-1"), post("story-2")]).expired == 1
    assert media(rig, "media_id, removed_at, removal") == [
        ("story-0", minute(72), "expired"), ("story-1", None, None), ("story-2", None, None),
    ]  # fmt: skip
    assert rig.value("SELECT written_at FROM core.media WHERE media_id = 'story-0'") == minute(0)
    assert last_seen(rig) == []


def test_an_item_that_was_rejected_several_times_was_last_seen_when_it_was_rejected_last(rig: Rig) -> None:
    for day in range(3):
        rig.scan(POSTS, f"p{day}", 24 * day, [post("a")] if day < 2 else [])
    again_mapped(rig)
    assert last_seen(rig) == [("a", None, minute(24))]
    assert media(rig, "media_id, first_seen_at") == [("a", minute(0))]


@pytest.mark.parametrize("merge_before_the_end", [True, False])
def test_an_unfinished_scan_does_not_remove_items_imported_from_quarantine(
    rig: Rig, *, merge_before_the_end: bool
) -> None:
    scan = Scan(POSTS, "p", at(0))
    rig.record(scan.page([post("a"), {"id": "1"}], at(1)))
    again_mapped(rig)
    rig.land(scan.page([{"id": "2"}], at(2)))
    if merge_before_the_end:
        rig.merge()
    rig.land(scan.page([], at(3), last=True))
    assert rig.merge().removed == 0
    assert media(rig, "media_id, removed_at") == [("1", None), ("2", None), ("a", None)]
    assert rig.scan_twice(POSTS, "q", 24, [{"id": "1"}, {"id": "2"}]).removed == 1


def test_rejected_accounts_and_pages_are_not_changed(rig: Rig) -> None:
    scan = Scan(CATALOGUE, "c", at(0))
    broken = RejectedRecord(0, "status: odd", json.dumps(account(status="odd", uuid="a")))
    rig.land(scan.page([account(status="odd", uuid="a")], at(0), rejected=(broken,), last=True))
    rig.land(Scan(POSTS, "p", at(0)).page([], at(1), text='<html>{"uuid":"a"}', last=True))
    rig.scan(POSTS, "q", 2, [post("a")])
    before = [row for row in quarantine(rig) if row[0] != NO_ID]
    assert again_mapped(rig) == (1, 0, 2)
    assert quarantine(rig) == before


def test_a_batch_that_breaks_off_leaves_everything_as_it_was(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.scan(POSTS, "p", 0, [post("a", brand_new=1)])
    rig.rebuild(WITH_UUID)
    before = rig.everything()
    merge = merge_module.merge

    def broken(connection: Connection, batch: list[Landing]) -> None:
        merge(connection, batch)
        raise OSError

    monkeypatch.setattr(quarantined, "merge", broken)
    with pytest.raises(OSError):  # noqa: PT011 - it is ours, and says nothing
        again(rig)
    assert rig.everything() == before
    monkeypatch.undo()
    assert again(rig) == (1, 0, 0)


def test_imported_items_are_counted_once_for_the_run_that_received_them(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [{"id": "1"}, post("a")])
    counted = "SELECT run_id, pages, items, added, quarantined FROM core.run_counts"
    assert rig.rows(counted) == [("run-1", 1, 2, 1, 1)]
    again_mapped(rig)
    assert rig.rows(counted) == [("run-1", 1, 2, 2, 1)]
    assert rig.rows(f"SELECT DISTINCT run_id FROM {rig.kept().replace('t.*, ', 'r.run_id, ')}") == [("run-1",)]
