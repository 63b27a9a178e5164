"""A rebuild reads everything again with another mapping, and imports what it can read of the quarantine."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from msgspec import structs

from connectors.warehouse.maintenance.rebuild import count_paths, explain_paths, rebuild
from connectors.warehouse.storage.connection import transaction
from models.checkpoint import Landing
from models.files import WarehouseUnusable
from models.item import CONTENT_RULE
from models.mapping import BUILT_IN, ColumnMapping, MediaMapping, Reading
from tests.warehouse.rig import STORIES, Item, Rig, contents, item, opened, opened_with_state
from tests.warehouse.test_store_kills import killed, widened

ALT_TEXT = replace(BUILT_IN, columns=(*BUILT_IN.columns, ColumnMapping("alt_text", Reading.TEXT, ("/about/picture",))))
KEPT = replace(BUILT_IN, count_words=(*BUILT_IN.count_words, "kept"))
QUARANTINE = ("imported", "outdated", "quarantined")
WITH_UUID = replace(BUILT_IN, media_id=(*BUILT_IN.media_id, "/uuid"))


def again(
    rig: Rig, mapping: MediaMapping = BUILT_IN, *, force: bool = False, is_killed: bool = False
) -> dict[str, Any]:
    """Rebuild, and merge what landed; if it `is_killed`, that happens before the commit."""

    def land(landings: Sequence[Landing]) -> None:
        for landing in landings:
            rig.seq += 1
            rig.inbox.append(structs.replace(landing, seq=rig.seq, run_seq=int(landing.run_id.removeprefix("run-"))))
        if is_killed:
            raise KeyboardInterrupt

    rig.merge()
    with transaction(rig.db):
        done = rebuild(rig.db, rig.folder / "raw", mapping, land=land, force=force)
    rig.mapping = mapping
    rig.merge()
    return done


def everything(rig: Rig) -> dict[str, Any]:
    found = dict(contents(rig.db))
    found.pop("warehouse")
    return found


def test_with_the_same_mapping_nothing_changes(rig: Rig) -> None:
    for day in range(3):
        rig.full_scan(
            *(
                item(str(n), caption=f"{n} {day * (n < 2)}", like_count=n * day, tags=["a"], rows=[{"x": n, "y": day}],
                     title=n, children=[{"id": "c"}])
                for n in range(4)
            ),
            {"caption": "no id"},
        )  # fmt: skip
        rig.wait(24)
    # Nothing is listed: all are missed.
    rig.full_scan()
    before = everything(rig)
    done = again(rig)
    assert everything(rig) == before
    assert [done[name] for name in ("items", *QUARANTINE)] == [4, 0, 0, 1]
    rig.full_scan(item("1", caption="changed"))
    assert len(rig.rows("*", "media_versions")) == 9


def test_a_new_column_is_filled_for_everything_that_landed_and_its_field_leaves(rig: Rig) -> None:
    rig.full_scan(item("1", about={"picture": "a cat"}), item("2", alt_text=7))
    rig.full_scan(item("1", about={"picture": "a dog"}), item("2", alt_text=7))
    done = again(rig, ALT_TEXT)
    # A field whose column is mapped now gets another one.
    assert rig.rows("media_id, alt_text, alt_text_2") == [("1", "a dog", None), ("2", None, 7)]
    assert rig.values("path", "fields") == ["/alt_text"]
    assert "about__picture" not in {name for name, *_ in rig.db.execute("DESCRIBE core.media").fetchall()}
    assert rig.rows("content, changed", "media_versions") == [
        ('{"alt_text":"a cat","caption":"A caption","published_at":"2025-12-01T00:00:00Z"}', ["alt_text"])
    ]
    told = explain_paths(ALT_TEXT, done)
    assert "alt_text: 1 of 2 items have $.about.picture" in told
    assert "about__picture: the column goes; its values will be in others" in told
    rig.full_scan(item("1", about={"picture": "a dog"}), item("3", about={"picture": "x"}))
    assert rig.rows("media_id, alt_text") == [("1", "a dog"), ("2", None), ("3", "x")]
    assert len(rig.rows("*", "media_versions")) == 1
    assert again(rig)["dropped"] == ["alt_text"]
    assert rig.rows("media_id, about__picture") == [("1", "a dog"), ("2", None), ("3", "x")]


@pytest.mark.parametrize("name", ["landed", "members", "is_item"])
def test_a_field_may_have_any_name(rig: Rig, name: str) -> None:
    for value in (1, 2):
        rig.full_scan(item("1", **{name: value}))
    before = everything(rig)
    again(rig)
    assert everything(rig) == before


def test_a_field_that_becomes_a_count_gets_a_metric(rig: Rig) -> None:
    rig.full_scan(item("1", kept=4, like_count=1), item("2"))
    again(rig, KEPT)
    kept = "media_id, metric, value, observed_at"
    first = rig.now
    assert rig.rows(kept, "media_counts") == [("1", "kept", 4, first), ("1", "like_count", 1, first)]
    rig.wait(1)
    rig.full_scan(item("1", kept=5, like_count=1), item("2"))
    assert rig.rows(kept, "media_counts")[1] == ("1", "kept", 5, rig.now)
    assert rig.rows("*", "media_versions") == []


def test_a_count_that_is_ignored_since_a_rebuild_makes_no_change(rig: Rig) -> None:
    rig.full_scan(item("a", view_count=1, kept=1))
    again(rig, replace(BUILT_IN, ignore=("/view_count",)))
    rig.full_scan(item("a", view_count=2, kept=1))
    assert rig.rows("view_count, changed_at = first_seen_at") == [(2, True)]
    assert rig.rows("value", "media_counts") == [(1,)]


def test_it_refuses_other_ids_unless_it_is_told(rig: Rig) -> None:
    rig.full_scan(*({"id": str(n), "uuid": f"u{n}"} for n in range(3)))
    other = replace(BUILT_IN, media_id=("/uuid", *BUILT_IN.media_id))
    assert "3 of 3 items would have another id" in explain_paths(
        other, count_paths(rig.db, rig.folder / "raw", other)
    )[-1]  # fmt: skip
    with pytest.raises(WarehouseUnusable, match="3 of 3 items would have another id"):
        again(rig, other)
    assert again(rig, WITH_UUID)["other_ids"] == 0
    assert again(rig, other, force=True)["other_ids"] == 3


def test_it_refuses_to_empty_a_mapped_column_unless_it_is_told(rig: Rig) -> None:
    rig.full_scan(item("1", about={"picture": "a cat"}), item("2"))
    again(rig, ALT_TEXT)
    column = ColumnMapping("alt_text", Reading.TEXT, ("/no/such/path",))
    wrong = replace(BUILT_IN, columns=(*BUILT_IN.columns, column))
    before = contents(rig.db)
    why = r"alt_text would become empty; alt_text: 0 of 2 items have \$\.no\.such\.path\. Nothing .* --force"
    with pytest.raises(WarehouseUnusable, match=why):
        again(rig, wrong)
    assert contents(rig.db) == before
    paths = count_paths(rig.db, rig.folder / "raw", wrong)
    assert "alt_text: 0 of 2 items have $.no.such.path" in explain_paths(wrong, paths)
    assert "published_at: 2 of 2 items have $.timestamp" in explain_paths(wrong, paths)
    assert paths["emptied"] == ["alt_text"]
    assert contents(rig.db) == before
    again(rig, wrong, force=True)
    assert rig.values("alt_text") == [None, None]
    again(rig)
    assert rig.values("about__picture") == [None, "a cat"]


WITHOUT_BYTES = "UPDATE core.media SET raw_landed = 9 WHERE media_id = '1'"


@pytest.mark.parametrize(
    ("statement", "mapping", "message"),
    [
        ("", replace(BUILT_IN, media_id=("/uid",)), r"2 of 2 stored items cannot be read.*has no id"),
        (WITHOUT_BYTES, BUILT_IN, r"lacks 1 payloads that the warehouse refers to\. Fix: restore it"),
    ],
)
def test_what_cannot_be_read_is_refused(rig: Rig, statement: str, mapping: MediaMapping, message: str) -> None:
    rig.full_scan(item("1"), item("2"))
    rig.db.execute(statement)
    before = contents(rig.db)
    with pytest.raises(WarehouseUnusable, match=message):
        again(rig, mapping)
    assert contents(rig.db) == before


def test_the_first_command_of_a_release_with_another_content_rule_computes_the_hashes_again(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    with opened_with_state(path) as rig:
        rig.begin_run()
        for caption in ("A", "B"):
            rig.full_scan(item("1", caption=caption), item("2"), {"caption": "no id"})
        before = contents(rig.db)
    with duckdb.connect(str(path)) as db:
        db.execute("UPDATE core.media SET content_hash = 1; UPDATE core.warehouse SET content_rule = 0")
    for _ in range(2):
        with opened_with_state(path) as rig:
            after = contents(rig.db)
            assert after["warehouse"][0]["content_rule"] == CONTENT_RULE
            assert {**after, "warehouse": before["warehouse"]} == before


def post(uuid: object, caption: str = "x", **more: object) -> Item:
    return {"uuid": uuid, "caption": caption, **more}


def test_a_record_that_has_an_id_now_becomes_a_row_and_is_counted_once(rig: Rig) -> None:
    rig.full_scan(item("1"), post("a", like_count=3, odd=True), post(None), {"caption": "no id"})
    counted = "run_id, pages, items, added, quarantined"
    assert rig.rows(counted, "run_counts") == [("run-1", 1, 4, 1, 3)]
    done = again(rig, WITH_UUID)
    assert [done[name] for name in QUARANTINE] == [1, 0, 2]
    times = "first_seen_at, changed_at, last_seen_at, removed_at"
    assert rig.rows(f"media_id, caption, like_count, odd, {times}")[1] == (
        "a", "x", 3, True, rig.now, rig.now, rig.now, None,
    )  # fmt: skip
    assert rig.rows(counted, "run_counts") == [("run-1", 1, 4, 2, 3)]
    assert [(row["media_id"], row["run_id"], json.loads(row["payload"])) for row in rig.raw()[1:]] == [
        ("a", "run-1", post("a", like_count=3, odd=True))
    ]
    before = everything(rig)
    assert again(rig, WITH_UUID)["imported"] == 0
    assert everything(rig) == before


@pytest.mark.parametrize(("in_force", "items", "imported"), [(BUILT_IN, [], 3), (WITH_UUID, ["a", "b"], 0)])
def test_what_landed_again_before_a_kill_is_read_once(
    rig: Rig, in_force: MediaMapping, items: list[str], imported: int
) -> None:
    for caption in ("old", "new"):
        rig.full_scan(post("a", caption), post("b"), {"caption": "no id"})
        rig.wait(24)
    before = everything(rig)
    with pytest.raises(KeyboardInterrupt):
        again(rig, WITH_UUID, is_killed=True)
    assert len(rig.inbox) == 4
    # A warehouse without items takes the mapping of the settings when it is opened.
    rig.mapping = in_force
    rig.merge()
    assert rig.values("media_id") == items
    assert len(rig.rows("*", "quarantine")) == 1 + imported
    assert items or everything(rig) == before
    assert [again(rig, WITH_UUID)[name] for name in QUARANTINE] == [imported, 0, 1]
    assert rig.values("media_id") == ["a", "b"]


def test_an_item_seen_later_is_not_overwritten(rig: Rig) -> None:
    rig.full_scan(post("a", "old"), post("c"))
    rig.wait(24)
    rig.full_scan(item("a", caption="new"), post("b", "1"), post("c"))
    rig.wait(24)
    rig.full_scan(item("a", caption="new"), post("b", "2"))
    done = again(rig, WITH_UUID)
    assert [done[name] for name in QUARANTINE] == [3, 1, 0]
    assert rig.rows("media_id, caption") == [("a", "new"), ("b", "2"), ("c", "x")]
    assert rig.rows("media_id, json_extract_string(content, '$.caption')", "media_versions") == [("b", "1")]
    # When its record was received last.
    assert rig.rows("media_id, extract(day FROM last_seen_at - first_seen_at)")[2] == ("c", 1)


def test_an_unfinished_scan_does_not_miss_imported_items(rig: Rig) -> None:
    scan = rig.begin()
    scan.page(post("a"), item("1"))
    again(rig, WITH_UUID)
    scan.close(item("2"))
    rig.merge()
    assert rig.rows("media_id, missed_at") == [("1", None), ("2", None), ("a", None)]


def test_after_another_mapping_of_times_the_next_scans_are_full(rig: Rig) -> None:
    rig.full_scan(item("1"), partition=STORIES)
    rig.db.execute("UPDATE core.closed_scans SET item_order = 'newest_first', order_proofs = 0")
    again(rig, ALT_TEXT)
    assert rig.rows("item_order, order_proofs", "closed_scans") == [("newest_first", 0)]
    again(rig, WITH_UUID, force=True)
    assert rig.rows("item_order, order_proofs > 0", "closed_scans") == [(None, True)]


NAMES = replace(BUILT_IN, columns=(*BUILT_IN.columns, ColumnMapping("integer_text", Reading.TEXT, ("/who/name",))))


@pytest.mark.parametrize("mapping", [BUILT_IN, NAMES], ids=["the same", "another"])
def test_the_file_reopens_after_a_kill_following_a_rebuild(rig: Rig, mapping: MediaMapping) -> None:
    """The registry forgets half of the types of each field before, so that columns change their types."""
    for place in range(2):
        rig.full_scan(item("1", who={"name": "a"}, **widened(place)), item("2"))
    rig.db.execute("UPDATE core.fields SET kinds = kinds[:1]")
    rig.db.execute("CHECKPOINT")
    again(rig, mapping)
    with opened(killed(rig)) as reopened:
        assert everything(reopened) == everything(rig)
        reopened.seq, reopened.mapping = 9, mapping
        reopened.full_scan(item("1", who={"name": "b"}), item("3", integer_text="c"))
        assert len(reopened.values("media_id")) == 3
