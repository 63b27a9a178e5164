from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from connectors.warehouse.ingest import arrow_json
from connectors.warehouse.ingest.layout import Layout
from connectors.warehouse.maintenance.opening import adopt_mapping
from connectors.warehouse.merge.run_counts import MergeStats
from models.mapping import BUILT_IN
from models.schema.fields import MOST_COLUMNS
from tests.warehouse.rig import POSTS, Item, Rig

SHOWN = "SELECT media_url, thumbnail_url, caption FROM core.media"


def item(signature: str, caption: str = "Brot", **more: object) -> Item:
    urls = {"media_url": f"https://cdn/1.jpg?sig={signature}", "thumbnail_url": f"https://cdn/t.jpg?sig={signature}"}
    child = {"id": "1-1", "media_type": "IMAGE", "media_url": f"https://cdn/2.jpg?sig={signature}"}
    return {"id": "1", "caption": caption, **urls, "children": {"data": [child]}, **more}


def urls(signature: str) -> tuple[str, str]:
    return f"https://cdn/1.jpg?sig={signature}", f"https://cdn/t.jpg?sig={signature}"


def child_urls(rig: Rig, media_id: str = "1") -> list[str]:
    found = f"SELECT media_url FROM core.media_children WHERE media_id = '{media_id}' ORDER BY position"
    return [url for (url,) in rig.rows(found)]


def hashes(rig: Rig) -> Sequence[object]:
    return rig.rows("SELECT hex(payload_hash) FROM core.media ORDER BY media_id")


def test_the_newest_address_is_kept_without_a_new_version(rig: Rig) -> None:
    rig.scan(POSTS, "first", 0, [item("a")])
    before = hashes(rig)
    counts = rig.scan(POSTS, "second", 24, [item("b")])
    assert counts == MergeStats()
    assert rig.row(SHOWN) == (*urls("b"), "Brot")
    assert child_urls(rig) == ["https://cdn/2.jpg?sig=b"]
    assert hashes(rig) != before
    assert rig.rows("SELECT * FROM core.media_superseded") == []
    assert rig.value("SELECT sum(rows) FROM ops.raw_parts") == 1


def test_a_column_that_widens_leaves_the_newest_address_of_other_items(rig: Rig) -> None:
    other = {"id": "2", "size": 1}
    rig.scan(POSTS, "first", 0, [item("a", size=1), other])
    rig.scan(POSTS, "second", 24, [item("b", size=1), other])
    before = hashes(rig)
    rig.scan(POSTS, "third", 48, [item("b", size=1), {"id": "2", "size": "large"}])
    # The raw store has the item with its first address only.
    assert rig.row(f"{SHOWN} WHERE media_id = '1'") == (*urls("b"), "Brot")
    assert rig.rows("SELECT size FROM core.media ORDER BY media_id") == [("1",), ("large",)]
    assert hashes(rig)[:1] == before[:1]
    assert rig.rows("FROM core.quarantine") == []


@pytest.mark.parametrize(
    ("first", "then", "sizes"),
    [(1, "L", ["1", "1", "L"]), ([], "L", ["[]", "[]", "L"]), ([], ["L"], [[], [], ["L"]])],
    ids=["wider", "empty list, then text", "empty list, then list"],
)
def test_a_column_of_children_that_is_filled_leaves_the_newest_address_of_others(
    rig: Rig, first: object, then: object, sizes: list[object]
) -> None:
    def carousel(media_id: str, signature: str, size: object) -> Item:
        urls = [f"https://cdn/{number}.jpg?sig={signature}" for number in range(2)]
        return {"id": media_id, "size": size, "children": [{"size": size, "media_url": url} for url in urls]}

    other: Item = {"id": "2", "size": first, "children": [{"size": first, "media_url": "https://cdn/3.jpg"}]}
    rig.scan(POSTS, "first", 0, [carousel("1", "a", first), other])
    rig.scan(POSTS, "second", 24, [carousel("1", "b", first), other])
    before = hashes(rig)
    other["size"] = other["children"][0]["size"] = then
    rig.scan(POSTS, "third", 48, [carousel("1", "b", first), other])
    assert child_urls(rig, "1") == ["https://cdn/0.jpg?sig=b", "https://cdn/1.jpg?sig=b"]
    found = rig.rows("SELECT size FROM core.media_children ORDER BY media_id, position")
    assert [size for (size,) in found] == sizes
    assert [size for (size,) in rig.rows("SELECT size FROM core.media ORDER BY media_id")] == sizes[1:]
    assert hashes(rig)[:1] == before[:1]


def test_an_item_with_unchanged_bytes_is_not_decoded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.scan(POSTS, "first", 0, [item("a")])
    rig.scan(POSTS, "second", 24, [item("b")])
    decoded: list[bytes] = []
    read = arrow_json.read

    def noted(raw: Sequence[bytes], layout: Layout) -> Any:  # noqa: ANN401 - pyarrow has no types
        decoded.extend(raw)
        return read(raw, layout)

    monkeypatch.setattr(arrow_json, "read", noted)
    rig.scan(POSTS, "third", 48, [item("b")])
    assert decoded == []
    assert rig.row(SHOWN) == (*urls("b"), "Brot")
    rig.scan(POSTS, "fourth", 72, [item("a")])
    assert len(decoded) == 1
    assert rig.row(SHOWN) == (*urls("a"), "Brot")


def test_the_last_address_of_several_sightings_in_one_merge_is_used(rig: Rig) -> None:
    rig.scan(POSTS, "first", 0, [item("a")], [item("b", "Kuchen")], [item("c", "Kuchen")])
    assert rig.row(SHOWN) == (*urls("c"), "Kuchen")
    assert child_urls(rig) == ["https://cdn/2.jpg?sig=c"]


def test_an_item_that_returns_has_its_newest_address(rig: Rig) -> None:
    rig.scan(POSTS, "first", 0, [item("a"), {"id": "2"}, {"id": "3"}])
    rig.scan_twice(POSTS, "second", 24, [{"id": "2"}, {"id": "3"}])
    assert rig.value("SELECT removed_at IS NOT NULL FROM core.media WHERE media_id = '1'")
    counts = rig.scan(POSTS, "third", 48, [item("b"), {"id": "2"}, {"id": "3"}])
    assert counts.returned == 1
    assert rig.row(f"{SHOWN} WHERE media_id = '1'") == (*urls("b"), "Brot")


def test_after_a_rebuild_the_next_scan_brings_the_newest_address_again(rig: Rig) -> None:
    rig.scan(POSTS, "first", 0, [item("a")])
    rig.scan(POSTS, "second", 24, [item("b")])
    rig.rebuild()
    assert rig.scan(POSTS, "third", 48, [item("b")]) == MergeStats()
    assert rig.row(SHOWN) == (*urls("b"), "Brot")


def signed(at: int) -> str:
    return f"https://cdn.example.com/1?size=1&sig={at}"


def varying(at: int) -> Item:
    """Fields whose values differ in every response, of every kind."""
    letter = "é" if at % 2 else "e\u0301"
    return {
        "owner": {"avatar": signed(at)},
        "sizes": {"low": {"at": signed(at)}},
        "children": [{"id": "1", "preview": signed(at)}],
        "images": [[signed(at)], {"a": signed(at)}],
        "own_parameter": f"https://cdn.example.com/1?at={at}",
        # Ignored.
        "fetched_at": at,
        "meta": {"request_id": str(at), "a": {"b": [at]}},
        # Empty, and composed of other characters.
        "alt": "" if at % 2 else None,
        "texts": ["" if at % 2 else None, "b"],
        "title": letter,
        "titles": [letter],
    }


def without_columns(at: int) -> Item:
    """The same for fields beyond those that get a column."""
    return {
        **{f"f{number}": number for number in range(MOST_COLUMNS)},
        "fetched_at": at,
        "g": 1,
        "meta": {"a": [str(at), 'x"]}'], "b": f'"{at}"', "c": {"d": at}},
        "picture": signed(at),
    }


IGNORE = ("/fetched_at", "/meta/*", "/*/seen")


@pytest.mark.parametrize("varies", [varying, without_columns])
def test_a_field_that_differs_in_every_response_is_no_change_and_its_newest_value_is_kept(
    rig: Rig, varies: Callable[[int], Item]
) -> None:
    rig.scan(POSTS, "zero", 0, [{"id": "9", **varies(1), **varies(2)}])
    parameters = (*BUILT_IN.volatile_parameters, "at")
    rig.call(adopt_mapping, replace(BUILT_IN, ignore=IGNORE, volatile_parameters=parameters))
    rig.scan(POSTS, "first", 24, [{"id": "1", "caption": "a", **varies(1)}])
    assert rig.scan(POSTS, "second", 48, [{"id": "1", "caption": "a", **varies(2)}]).changed == 0
    everything = "SELECT * EXCLUDE ({}) FROM core.{} WHERE media_id = {} ORDER BY ALL"
    tables = {
        "media": "media_id, raw_landed, payload_hash, first_seen_at, written_at, written_seq, changed_at,"
        " content_changed_at, removed_at, removal",
        "media_children": "media_id",
    }
    newest = [rig.rows(everything.format(left_out, table, "'1'")) for table, left_out in tables.items()]
    rig.scan(POSTS, "third", 72, [{"id": "2", "caption": "a", **varies(2)}])
    assert newest == [rig.rows(everything.format(left_out, table, "'2'")) for table, left_out in tables.items()]
    # The content is compared nevertheless.
    assert rig.scan(POSTS, "fourth", 96, [{"id": "2", "caption": "b", **varies(3)}]).changed == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("https://shop.example.com/?p=1", "https://shop.example.com/?p=2"),
        ("https://cdn.example.com/1?sig=1", "https://cdn.example.com/2?sig=2"),
        ("see https://cdn.example.com/?sig=1", "see https://cdn.example.com/?sig=2"),
        ("a", ""),
    ],
)
def test_another_address_and_an_address_in_a_text_are_changes(rig: Rig, before: str, after: str) -> None:
    rig.scan(POSTS, "first", 0, [{"id": "1", "link": before}])
    assert rig.scan(POSTS, "second", 24, [{"id": "1", "link": after}]).changed == 1
