"""Rebuilding the tables from the raw store with another mapping."""

from dataclasses import replace
from typing import Any

import pytest

from connectors.warehouse.maintenance.opening import adopt_mapping
from connectors.warehouse.merge.stored_items import StoredItems, decode_stored
from connectors.warehouse.schema.field_registry import read_mapping
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.mapping import BUILT_IN, ColumnMapping, Mapping, Reading
from models.partition import media
from tests.warehouse.rig import POSTS, TITLE, Item, Rig, minute

ALT_TEXT = replace(BUILT_IN, columns=(*BUILT_IN.columns, ColumnMapping("alt_text", Reading.TEXT, ("/about/picture",))))
BOOKMARKED = replace(BUILT_IN, count_words=(*BUILT_IN.count_words, "kept"))


def item(number: int = 1, **more: object) -> Item:
    return {"id": str(number), "caption": "c", "like_count": 3, **more}


def test_a_new_column_is_filled_for_everything_that_landed(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [item(1, about={"picture": "a cat"}), item(2)])
    rig.rebuild(ALT_TEXT)
    assert rig.rows("SELECT media_id, alt_text FROM core.media ORDER BY 1") == [("1", "a cat"), ("2", None)]
    rig.scan(POSTS, "q", 24, [item(1, about={"picture": "a dog"}), item(2), item(3, about={"picture": "x"})])
    assert rig.rows("SELECT media_id, alt_text FROM core.media ORDER BY 1") == [
        ("1", "a dog"), ("2", None), ("3", "x"),
    ]  # fmt: skip
    assert rig.row("SELECT column_name, type FROM core.fields WHERE path = '/about/picture'") == (
        "alt_text",
        "VARCHAR",
    )


def test_one_pass_over_the_payloads_changes_nothing_if_the_mapping_is_the_same(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(3):
        items = [
            item(n, like_count=n * day, tags=["a"], rows=[{"x": n, "y": day}], title=n, children=[{"id": "c"}])
            for n in range(4)
        ]
        rig.scan(POSTS, f"p{day}", day * 24, items[day:])
    before = rig.everything("schema_name = 'core'")
    decoded: list[str] = []

    def counted(connection: Connection, stored: StoredItems, *given: Any) -> Any:  # noqa: ANN401
        decoded.append(stored.table)
        return decode_stored(connection, stored, *given)

    monkeypatch.setattr("connectors.warehouse.maintenance.rebuild.decode_stored", counted)
    rig.rebuild()
    assert rig.everything("schema_name = 'core'") == before
    assert decoded == ["core.media_before", "core.media_superseded_before"]


@pytest.mark.parametrize("found_in", ["item", "version", "child"])
def test_a_field_that_the_registry_lacks_is_found_in_the_payloads(rig: Rig, found_in: str) -> None:
    more = {"children": [{"id": "c", "frame": "f"}]} if found_in == "child" else {"frame": "f"}
    rig.scan(POSTS, "p", 0, [item(1), item(2)])
    rig.scan(POSTS, "q", 24, [item(1, **more), item(2)])
    if found_in == "version":
        rig.scan(POSTS, "r", 48, [item(1), item(2)])
    before = rig.everything("schema_name = 'core'")
    resource = "media_children" if found_in == "child" else "media"
    assert rig.rows(f"DELETE FROM core.fields WHERE resource = '{resource}' AND path = '/frame'") == [(1,)]
    assert rig.everything("schema_name = 'core'") != before
    rig.rebuild()
    assert rig.everything("schema_name = 'core'") == before


def test_a_type_that_the_registry_lacks_is_found_in_the_payloads(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [item(1, mood=5), item(2, mood="good")])
    before = rig.everything("schema_name = 'core'")
    less = """type = 'BIGINT', json_types = json_merge_patch(json_types, '{"text": null}')"""
    rig.do(f"UPDATE core.fields SET {less} WHERE path = '/mood'")
    rig.rebuild()
    assert rig.everything("schema_name = 'core'") == before


def test_a_field_that_becomes_a_count_gets_a_metric(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [item(1, kept=4), item(2)])
    assert rig.rows("SELECT DISTINCT metric FROM core.media_metrics") == [("like_count",)]
    rig.rebuild(BOOKMARKED)
    when = minute(0)
    kept = "SELECT media_id, value, observed_at FROM core.media_metrics WHERE metric = 'kept' ORDER BY ALL"
    assert rig.rows(kept) == [("1", 4, when)]
    # From then on, a change of it does not change the content.
    rig.scan(POSTS, "q", 24, [item(1, kept=5), item(2)])
    assert rig.rows(kept) == [("1", 4, when), ("1", 5, minute(24))]
    assert rig.value("SELECT count(*) FROM core.media_superseded") == 0


def test_a_child_table_without_a_source_is_dropped(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [item(1, panels=[{"id": "a"}])])
    assert rig.rows("SELECT position FROM core.media_panels") == [(0,)]
    rig.rebuild(replace(BUILT_IN, children=("/panels", *BUILT_IN.children)))
    assert rig.rows("SELECT media_id, position, child_id FROM core.media_children") == [("1", 0, "a")]
    assert rig.value("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'media_panels'") == 0


def test_fields_found_in_one_batch_are_kept_while_others_are_decoded(rig: Rig) -> None:
    # Each scan is a part of the raw store, and thus a batch.
    days: tuple[Item, ...] = ({"mood": "good"}, {"place": "Rome"}, {"mood": 5}, {"tone": True})
    for day, message in enumerate(days):
        rig.scan(POSTS, f"s{day}", 24 * day, [item(day, **message)], last=False)
    whole = rig.rows("SELECT media_id, mood, place, tone FROM core.media ORDER BY media_id")
    rig.do("UPDATE core.media SET payload_hash = NULL")
    rig.do("DELETE FROM core.fields")
    for column in ("mood", "place", "tone"):
        rig.do(f"ALTER TABLE core.media DROP COLUMN {column}")
    rig.rebuild()
    assert rig.rows("SELECT media_id, mood, place, tone FROM core.media ORDER BY media_id") == whole


def test_a_filled_one_keeps_its_mapping_until_it_is_rebuilt(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [item()])
    rig.call(adopt_mapping, TITLE)
    assert rig.call(read_mapping) == BUILT_IN
    rig.rebuild(TITLE)
    assert rig.call(read_mapping) == TITLE
    rig.call(adopt_mapping, BUILT_IN)
    assert rig.call(read_mapping) == TITLE


WITH_UID = replace(BUILT_IN, media_id=("/uid",))
OWN = ColumnMapping("alt_text", Reading.TEXT, ("/about/picture",))


@pytest.mark.parametrize(
    ("mapping", "columns"),
    [
        (replace(WITH_UID, columns=(*BUILT_IN.columns, OWN)), {"alt_text": "a cat", "alt_text_2": "a field"}),
        (replace(WITH_UID, child_columns=(*BUILT_IN.child_columns, replace(OWN, paths=("/alt",)))), {}),
        (replace(WITH_UID, children=("/panels",)), {}),
    ],
    ids=["column", "child column", "children"],
)
def test_a_mapping_is_adopted_after_a_sync_in_which_no_item_became_a_row(
    rig: Rig, mapping: Mapping, columns: dict[str, str]
) -> None:
    panels = [{"id": "p", "alt": "a dog"}]
    found = {"uid": "1", "about": {"picture": "a cat"}, "alt_text": "a field", "children": panels, "panels": panels}
    rig.scan(POSTS, "p", 0, [found])
    assert (rig.rows("FROM core.media"), len(rig.rows("FROM core.quarantine"))) == ([], 1)
    rig.call(adopt_mapping, mapping)
    assert rig.call(read_mapping) == mapping
    rig.scan(POSTS, "q", 24, [found])
    assert rig.value("SELECT media_id FROM core.media") == "1"
    for column, text in columns.items():
        assert rig.value(f"SELECT {column} FROM core.media") == text
    adopted = rig.everything("schema_name = 'core'")
    rig.rebuild(mapping)
    assert rig.everything("schema_name = 'core'") == adopted


def test_many_counts_are_rebuilt_account_by_account(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, name in enumerate(("zoe", "it's", "anna")):
        for day in range(2):
            items = [item(n, like_count=n + day, kept=n) for n in range(1 + number)]
            rig.scan(media(name, "posts"), f"{name}{day}", 24 * day + number, items)
    monkeypatch.setattr("connectors.warehouse.maintenance.rebuild._JOINED_AT_ONCE", 2)
    rig.rebuild()
    assert rig.value("SELECT count(*) FROM core.media_metrics WHERE metric = 'kept'") == 0
    before = rig.rows("FROM core.media_metrics ORDER BY ALL")
    assert len(before) == 12
    # Now every stored count differs from the raw store, and a new one is read.
    rig.do("UPDATE core.media_metrics SET value = value + 100")
    rig.rebuild(BOOKMARKED)
    found = rig.rows("SELECT account_id, media_id, metric, value FROM core.media_metrics ORDER BY ALL")
    likes = [(account, place, "like_count", value) for account, _, place, _, value, when, _ in before if when.day == 2]
    older = [
        (account, place, "like_count", value + 100) for account, _, place, _, value, when, _ in before if when.day == 1
    ]
    kept = [(account, place, "kept", int(place)) for account, place, _, _ in likes]
    assert found == sorted([*likes, *older, *kept])


@pytest.mark.parametrize("own", [[70, 80], 3])
def test_a_field_named_counts_does_not_change_the_counts(rig: Rig, own: object) -> None:
    rig.days({"like_count": 1, "comments_count": 2, "counts": own})
    before = rig.rows("FROM core.media_metrics ORDER BY ALL")
    rig.rebuild()
    assert rig.rows("FROM core.media_metrics ORDER BY ALL") == before


@pytest.mark.parametrize("table", ["media", "media_superseded"])
def test_items_whose_bytes_are_lost_are_named_and_kept(rig: Rig, table: str) -> None:
    for day in range(2):
        rig.scan(POSTS, f"p{day}", day, [item(1, caption=str(day)), item(2)])
    rig.do(f"UPDATE core.{table} SET raw_landed = 999 WHERE media_id = '1'")
    before = rig.everything("schema_name = 'core'")
    with pytest.raises(WarehouseUnusable, match=r"lacks 1 payloads that the warehouse refers to\. Fix: restore it"):
        rig.rebuild()
    assert rig.everything("schema_name = 'core'") == before
