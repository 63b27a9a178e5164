"""What becomes of an item that is listed again: versions, counts, addresses, fields and rejected records."""

import json
from dataclasses import replace
from typing import Any

import pytest
from duckdb import DuckDBPyConnection
from msgspec import structs

from connectors.warehouse.merge import items
from models.feeds import CATALOGUE, media
from models.mapping import BUILT_IN
from tests.warehouse.rig import BEN, POSTS, Rig, account, item


@pytest.mark.parametrize("pages", [["ABA"], ["A", "BA"], ["A", "B", "A"]])
@pytest.mark.parametrize("is_divided", [False, True])
@pytest.mark.parametrize("few", [0, 100])
def test_every_content_of_an_item_counts_in_order(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, pages: list[str], few: int, *, is_divided: bool
) -> None:
    monkeypatch.setattr(items, "_FEW_ACCOUNTS", few)
    rig.full_scan(item("a", caption="A"))
    scan = rig.begin()
    for captions in pages:
        scan.page(*(item("a", caption=caption) for caption in captions))
        if is_divided:
            rig.merge()
    rig.merge()
    versions = [
        json.loads(content)["caption"]
        for content in rig.values("content", "media_versions", "raw_landed, raw_position")
    ]
    assert versions == ["A", "B"]
    assert rig.values("changed", "media_versions") == [["caption"]] * 2
    assert rig.values("caption") == ["A"]
    assert rig.values("changed", "run_counts") == [2]
    [place] = rig.rows("raw_landed, raw_position")
    stored = {(row["landed"], row["position"]): row["payload"] for row in rig.raw()}
    assert stored[place] == json.dumps(item("a", caption="A")).encode()


@pytest.mark.parametrize("unread", [["x"], {"text": {"body": "x"}}])
def test_a_version_has_a_column_beside_what_stands_at_its_first_path(rig: Rig, unread: object) -> None:
    for text in ("A", "B"):
        rig.full_scan({"id": "a", "caption": unread, "captionText": text})
    [content] = rig.values("content", "media_versions")
    assert (json.loads(content)["caption"], len(json.loads(content))) == ("A", 2)
    assert rig.values("changed", "media_versions") == [["caption"]]


def test_a_count_that_the_mapping_ignores_has_its_newest_value_and_no_history(rig: Rig) -> None:
    rig.mapping = replace(BUILT_IN, ignore=("/like_count", "/view_count"))
    for seen in (5, 6):
        rig.full_scan(
            item("a", like_count=seen, view_count=seen, comments_count=1), {"id": "b", "likeCount": seen, "saves": 1}
        )
    rows = rig.rows("media_id, like_count, view_count, comments_count, changed_at = first_seen_at")
    assert sorted(rows) == [("a", 6, 6, 1, True), ("b", 6, None, None, True)]
    assert sorted(rig.rows("media_id, metric", "media_counts")) == [("a", "comments_count"), ("b", "saves")]


def test_an_address_signed_anew_is_updated_and_is_no_change(rig: Rig) -> None:
    first = item("a", media_url="https://cdn/1", thumb="https://cdn/t1", parts=[{"id": "1", "url": "https://cdn/p1"}])
    rig.full_scan(first)
    [before] = rig.rows("changed_at, content_changed_at, raw_landed, run_seq")
    rig.wait(1)
    rig.run_seq = 2
    rig.full_scan(item("a", media_url="https://cdn/2", parts=[{"id": "1", "url": "https://cdn/p2"}]))
    assert rig.rows("changed_at, content_changed_at, raw_landed, run_seq") == [before]
    [(media_url, thumb, parts, seen_seq)] = rig.rows("media_url, thumb, parts, seen_seq")
    assert (media_url, thumb, json.loads(parts)[0]["url"], seen_seq) == ("https://cdn/2", None, "https://cdn/p2", 2)
    assert rig.rows("*", "media_versions") == []
    rig.full_scan(item("a", media_url="https://cdn/2", parts=[{"id": "1", "url": "https://cdn/p2"}]))
    assert rig.values("last_seen_at") == [rig.now]


def test_the_same_bytes_in_two_accounts_are_two_items(rig: Rig) -> None:
    other = media(BEN, "posts")
    for _ in range(2):
        rig.full_scan(item("a"))
        rig.full_scan(item("a"), partition=other)
    assert rig.rows("account_id, seen_seq") == [(POSTS.account_id, 3), (other.account_id, 4)]


def test_a_rejected_record_is_one_row_however_often_it_comes(rig: Rig) -> None:
    for number in range(3):
        rig.full_scan({"caption": "x", "like_count": number, "url": f"https://cdn/{number}"}, item("a"))
        rig.wait(1)
    assert rig.rows("reason, seen_at < last_seen_at, position", "quarantine") == [
        ("The item has no id that gramhouse knows.", True, 0)
    ]
    assert rig.values("quarantined", "run_counts") == [1]


def test_fields_past_the_limit_stay_in_overflow(rig: Rig) -> None:
    rig.full_scan(item("a", **{f"f{number:03}": number for number in range(700)}))
    [(overflow,)] = rig.rows("overflow")
    assert min(json.loads(overflow).items()) == ("/f300", 300)
    assert len(json.loads(overflow)) == 400
    rig.full_scan(item("a", **{f"f{number:03}": number + (number == 650) for number in range(700)}))
    assert rig.values("changed", "media_versions") == [["/f650"]]


def test_the_content_of_a_version_has_texts_as_they_came(rig: Rig) -> None:
    said = {"code": "007", "list": [1], "like": "[1]", "at": "2026-01-01T00:00:00Z"}
    for caption in "AB":
        rig.full_scan(item("a", caption=caption, **said), item("b", code=7))
    [content] = map(json.loads, rig.values("content", "media_versions"))
    assert {name: content[f"/{name}"] for name in said} == {**said, "at": "2026-01-01T00:00:00+00:00"}


def test_a_count_is_the_same_after_its_column_became_one_of_texts(rig: Rig) -> None:
    for other in (0.5, "x", "y"):
        rig.full_scan(item("a", view_count=2**53), item("b", view_count=other))
    assert rig.rows("media_id, value", "media_counts") == [("a", 2**53)]
    rig.full_scan(item("a", view_count=2**53, caption="Another caption"))
    assert rig.rows("media_id, value", "media_counts") == [("a", 2**53)]


def test_types_that_widen_do_not_depend_on_how_many_are_read_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "_ITEMS", 1)
    values: tuple[dict[str, Any], ...] = (
        {"x": 1, "y": 2, "z": True},
        {"x": 0.5, "y": 2.5},
        {"y": "text", "z": "no", "new": [1]},
        {"x": 3},
    )
    rig.full_scan(*(item(str(number), **more) for number, more in enumerate(values)))
    assert rig.rows("media_id, x, y, z, new") == [
        ("0", 1.0, "2", "true", None),
        ("1", 0.5, "2.5", None, None),
        ("2", None, "text", "no", "[1]"),
        ("3", 3.0, None, None, None),
    ]


def test_a_merge_runs_no_statement_without_work(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.full_scan(item("a", x=1), item("b"))
    execute, statements = DuckDBPyConnection.execute, list[str]()

    def count(db: DuckDBPyConnection, query: str, *parameters: object) -> DuckDBPyConnection:
        statements.append(query)
        return execute(db, query, *parameters)

    monkeypatch.setattr(DuckDBPyConnection, "execute", count)
    scan = rig.begin()
    for land, listed, most in (
        (scan.page, [item("a", x=1), item("b")], 4),
        (scan.page, [item("c", x=1), item("d")], 8),
        (scan.close, [item("e")], 13),
    ):
        land(*listed)
        rig.merge()
        assert len(statements) <= most
        statements.clear()


def test_unknown_fields_of_pages_without_items_are_registered(rig: Rig) -> None:
    rig.begin(CATALOGUE).close({**account(), "added": 1})
    page = structs.replace(rig.begin().close(), body=b'{"items": [], "other": 1, "next_cursor": null}')
    rig.inbox[-1:] = [page]
    rig.merge()
    registered = [("account", "added", None), ("media_page", "other", None)]
    assert rig.rows("resource, path, column_name", "fields") == registered
