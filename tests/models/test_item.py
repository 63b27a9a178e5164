"""What is content, a count, an address and an id of an item: changes that do and do not make a version of it."""

import json
import unicodedata
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from models import item as rules
from models.checkpoint import Post
from models.item import Item, changed_columns, read_items, read_posts
from models.mapping import BUILT_IN, ColumnMapping, FieldType, MediaMapping, Reading
from models.values import RejectedItem

ITEM: dict[str, Any] = {
    "id": "1",
    "caption": "Café at dawn",
    "media_type": "CAROUSEL",
    "permalink": "https://a.example/p/1/",
    "timestamp": "2026-01-02T03:04:05Z",
    "media_url": "https://cdn.example/1.jpg?sig=a",
    "like_count": 5,
    "flag": True,
    "ratio": 1.5,
    "whole": 7,
    "owner": {"name": "ö", "views": 3, "avatar": "http://x/y", "deep": {"a": [1, "x", None]}},
    "children": [{"id": "c1", "media_url": "https://cdn/1?oh=1", "like_count": 4}, {"id": "c2", "tags": ["b", "a"]}],
}


@pytest.fixture(autouse=True)
def _compiled_again() -> None:
    """Let each test compile the mapping: mutation testing only runs those that reach a function."""
    rules._rules.cache_clear()  # noqa: SLF001 - not for callers


def read_item(raw: bytes, mapping: MediaMapping) -> Item:
    items = read_items([(7, raw)], mapping)
    for error in items.rejected.values():
        raise error
    return items.read[7]


def read(item: object, mapping: MediaMapping = BUILT_IN) -> Item:
    return read_item(json.dumps(item).encode(), mapping)


def changed(item: object, mapping: MediaMapping = BUILT_IN) -> tuple[str, ...]:
    """Return what differs from ITEM, and check that the hash says the same."""
    before, after = read(ITEM, mapping), read(item, mapping)
    names = changed_columns(before.content, after.content)
    assert bool(names) == (before.content_hash != after.content_hash)
    return names


def test_an_item_has_columns_counts_and_fields() -> None:
    items = read_items([(7, json.dumps(ITEM).encode())], BUILT_IN)
    assert (items.read[7].media_id, items.read[7].counts) == ("1", {"like_count": 5, "/owner/views": 3})
    children = json.dumps(ITEM["children"], separators=(",", ":"), sort_keys=True)
    assert items.read[7].values == {
        "caption": "Café at dawn",
        "media_type": "CAROUSEL",
        "permalink": "https://a.example/p/1/",
        "published_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "media_url": "https://cdn.example/1.jpg?sig=a",
        "/flag": True,
        "/ratio": 1.5,
        "/whole": 7,
        "/owner/name": "ö",
        "/owner/avatar": "http://x/y",
        "/owner/deep/a": '[1,"x",null]',
        "/children": children,
    }
    assert {path: str(kind) for path, member, kind, _ in items.kinds if not member} == {
        "/flag": "boolean", "/ratio": "number", "/whole": "integer", "/owner/name": "text", "/owner/views": "integer",
        "/owner/avatar": "text", "/owner/deep/a": "list", "/children": "list",
    }  # fmt: skip


def test_text_of_digits_is_a_count_in_a_field_that_is_named_like_one() -> None:
    item = read({"id": "1", "owner": {"views": "4", "plays": "4k", "name": "5"}}, BUILT_IN)
    assert (item.counts, item.values) == ({"/owner/views": 4}, {"/owner/plays": "4k", "/owner/name": "5"})


# Members of a record, and others that say the same.
RESPELLED = {
    "order": ('"a":1,"b":{"c":2,"d":3}', '"b" : {"d":3,\n"c":2}, "a":1'),
    "numbers": ('"a":[5,-25,0,1.5,100000000000000000000]', '"a":[50e-1,-2.5E+1,-0.0,15e-1,1e20]'),
    "numbers in columns": ('"a":5,"b":0', '"a":5.0,"b":0.0'),
    "texts": ('"a":"é","b":["가"]', '"a":"e\u0301","b":["\\u1100\\u1161"]'),
    "keys": ('"é":{"é":"x"},"a":[{"é":1}]', '"e\u0301":{"e\u0301":"\\u0078"},"a":[{"e\u0301":1}]'),
    "nothing": ('"a":{"b":1}', '"a":{"b":1,"c":null,"d":"","e":{},"f":[],"g":{"h":{"i":""}}},"j":null,"k":[]'),
    "nothing in lists": ('"a":[{"b":1},{},"x"]', '"a":[{"b":1,"c":null,"d":{"e":""}},{"f":[]},"x"]'),
    "addresses": ('"a":"http://a/1","b":["https://b/1"]', '"a":"https://c/2?sig=x","b":["http://d"]'),
    "addresses in lists": (
        '"a":[{"b":"https://b/1","c":[["https://c"]]}]',
        '"a":[{"b":"http://b/2","c":[["http://d"]]}]',
    ),
}


@pytest.mark.parametrize(("members", "others"), RESPELLED.values(), ids=RESPELLED)
def test_another_spelling_changes_nothing(members: str, others: str) -> None:
    before, after = (read_item(f'{{"id":"1",{each}}}'.encode(), BUILT_IN) for each in (members, others))
    assert changed_columns(before.content, after.content) == ()
    assert after.content_hash == before.content_hash


@pytest.mark.parametrize(
    ("edit", "names"),
    [
        ({"caption": "Cafe at dawn"}, ("caption",)),
        ({"caption": unicodedata.normalize("NFD", ITEM["caption"])}, ()),
        ({"caption": None}, ("caption",)),
        ({"flag": 1}, ("/flag",)),
        ({"whole": "7"}, ("/whole",)),
        ({"ratio": 1.5000001}, ("/ratio",)),
        ({"permalink": "https://a.example/p/2/"}, ("permalink",)),
        ({"timestamp": "2026-01-02T04:04:05+01:00"}, ()),
        ({"timestamp": "2026-01-02T03:04:06Z"}, ("published_at",)),
        ({"media_url": "https://other.example/2.mp4"}, ()),
        ({"like_count": 6}, ()),
        ({"like_count": "6"}, ()),
        ({"like_count": "1.2k"}, ("/like_count",)),
        ({"owner": {**ITEM["owner"], "views": 4.0, "avatar": "https://z"}}, ()),
        ({"owner": {**ITEM["owner"], "views": "4k"}}, ("/owner/views",)),
        ({"owner": {**ITEM["owner"], "deep": {"a": ["x", 1, None]}}}, ("/owner/deep/a",)),
        ({"children": ITEM["children"][::-1]}, ("/children",)),
        ({"children": [{**ITEM["children"][0], "like_count": 9, "media_url": "https://b"}, ITEM["children"][1]]}, ()),
        ({"children": [ITEM["children"][0], {**ITEM["children"][1], "tags": ["b"]}]}, ("/children",)),
        ({"new": "x"}, ("/new",)),
        ({"new": "https://x"}, ()),
        ({"owner/name": 1}, ("/owner~1name",)),
    ],
)
def test_what_an_edit_changes(edit: dict[str, Any], names: tuple[str, ...]) -> None:
    assert changed({**ITEM, **edit}) == names


def test_a_number_in_a_list_is_no_count() -> None:
    before, after = (read({"id": "1", "likes": [number]}) for number in (1, 2))
    assert changed_columns(before.content, after.content) == ("/likes",)


def test_the_mapping_may_say_what_is_content() -> None:
    mapping = replace(BUILT_IN, content=("/media_url", "/owner/*"), ignore=("/flag", "/children/tags", "/like_count"))
    assert changed({**ITEM, "media_url": "https://b"}, mapping) == ("media_url",)
    assert changed({**ITEM, "owner": {**ITEM["owner"], "avatar": "https://z"}}, mapping) == ("/owner/avatar",)
    assert changed({**ITEM, "flag": False, "like_count": 8}, mapping) == ()
    assert changed({**ITEM, "children": [ITEM["children"][0], {"id": "c2"}]}, mapping) == ()
    item = read(ITEM, mapping)
    assert (item.values["like_count"], item.values["/flag"], item.counts) == (5, True, {"/owner/views": 3})


def test_a_value_that_a_better_one_replaces_is_a_field_in_any_order() -> None:
    record = {"id": "1", "text": "b", "caption": "a", "pk": "2", "timestamp": "soon", "created_at": 1767323045}
    items = [read(record), read(dict(reversed(record.items())))]
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    for item in items:
        assert item.values == {"caption": "a", "published_at": at, "/text": "b", "/pk": "2", "/timestamp": "soon"}
    assert items[0].content_hash == items[1].content_hash


def test_a_value_may_be_in_two_columns() -> None:
    title = ColumnMapping("title", Reading.TEXT, ("/caption", "/headline"))
    mapping = replace(BUILT_IN, columns=(*BUILT_IN.columns, title))
    for record in ({"id": "1", "text": "a", "caption": "b"}, {"id": "1", "caption": "b", "text": "a"}):
        assert read(record, mapping).values == {"caption": "b", "title": "b", "/text": "a"}


def test_a_mapped_column_is_read_as_the_mapping_says() -> None:
    for reading, value, expected in (
        (Reading.TEXT, 1.0, "1"),
        (Reading.TEXT, True, "true"),
        (Reading.NUMBER, "1e3", 1000.0),
        (Reading.NUMBER, "1e999", None),
        (Reading.NUMBER, True, None),
        (Reading.FLAG, "Yes", True),
        (Reading.FLAG, 0, False),
        (Reading.FLAG, 2, None),
        (Reading.TIMESTAMP, "2026", None),
    ):
        mapping = replace(BUILT_IN, columns=(*BUILT_IN.columns, ColumnMapping("own", reading, ("/own",))))
        values = read({"id": "1", "own": value}, mapping).values
        assert values == ({"/own": value} if expected is None else {"own": expected})


def test_integers_of_any_size_stay_exact() -> None:
    for number, kind in (
        (2**53, FieldType.INTEGER),
        (2**53 + 1, FieldType.LONG),
        (-(2**63), FieldType.LONG),
        (2**63, FieldType.TEXT),
    ):
        items = read_items([(7, json.dumps({"id": number, "n": number}).encode())], BUILT_IN)
        assert (items.read[7].media_id, str(items.read[7].values["/n"])) == (str(number), str(number))
        assert items.kinds == {("/n", "", kind, False): 7}
        assert read({"id": "1", "n": number}).content_hash != read({"id": "1", "n": number + 1}).content_hash
        assert read({"id": "1", "n": number}).content_hash != read({"id": "1", "n": str(number)}).content_hash


@pytest.mark.parametrize(
    ("record", "media_id"),
    [
        ('{"id": " [abc"}', " [abc"),
        ('{"id": 17841400000000001}', "17841400000000001"),
        ('{"id": -0}', "0"),
        ('{"id": null, "pk": 7}', "7"),
        ('{"id": "", "pk": 7}', "7"),
        ('{"id": {"a": 1}, "pk": 7}', "7"),
        ('{"id": "1.78414e+16"}', "1.78414e+16"),
        ('{"id": 1.78414e+16}', "inexact_id"),
        ('{"id": 17841400000000001.0}', "inexact_id"),
        ('{"id": 5e0, "pk": "7"}', "inexact_id"),
        ('{"id": true}', "inexact_id"),
        ("{}", "no_id"),
        ('"text"', "not_an_object"),
        ("{", "not_json"),
        ('{"id": "1", "a": NaN}', "not_json"),
        ('{"id": "\ufffd", "pk": 1}', "inexact_id"),
        ('{"id": "1", "a": 1e400}', "number_out_of_range"),
        ('{"id": "1", "a": ' + "7" * 5000 + "}", "number_out_of_range"),
        # The record is one level itself, and 200 are the most.
        ('{"id": "1", "a": ' + "[" * 199 + "]" * 199 + "}", "1"),
        ('{"id": "1", "a": ' + "[" * 200 + "]" * 200 + "}", "too_deep"),
        ('{"id": "1", "a": ' + '{"a":' * 199 + "0" + "}" * 200, "1"),
        ('{"id": "1", "a": ' + '{"a":' * 200 + "0" + "}" * 201, "too_deep"),
        ('{"id": "1", "a": ' + "[" * 5000 + "]" * 5000 + "}", "too_deep"),
    ],
)
def test_ids_and_reasons(record: str, media_id: str) -> None:
    try:
        found = read_item(record.encode(), BUILT_IN).media_id
    except RejectedItem as rejected:
        found = rejected.code
    assert found == media_id


NOON = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)


def test_a_post_has_the_id_and_the_time_of_its_item() -> None:
    for record, media_id, has_time in (
        ('{"id":"1","timestamp":"2025-03-01T12:00:00Z"}', "1", True),
        ('{"pk":2,"takenAt":1740830400}', "2", True),
        ('{"id":"4","timestamp":"soon","created_at":"2025-03-01T12:00:00Z"}', "4", True),
        ('{"timestamp":1740830400}', None, True),
        ('{"id":"3","timestamp":"in March"}', "3", False),
        ('{"id":1e999}', None, False),
        ("null", None, False),
        ('{"id":"5","a":' + "[" * 200 + "]" * 200 + "}", None, False),
    ):
        assert read_posts([record.encode()], BUILT_IN) == [Post(media_id, NOON if has_time else None)]
