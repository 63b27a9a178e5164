import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.run_counts import MergeStats
from models.mapping import BUILT_IN
from models.page_items import post_reader
from models.record import REASONS
from tests.models.schema.test_times import AT, NOT_READ, READ
from tests.warehouse.rig import ANNA, POSTS, T0, Item, Rig, Scan, at, minute

CANONICAL = "media_type, caption, permalink, media_url, published_at, like_count, comments_count"
NOON = datetime(2026, 2, 28, 12, 0, tzinfo=UTC)
TIMES = "first_seen_at, written_at, changed_at"


def read(rig: Rig, column: str, items: Sequence[Item]) -> dict[int, Any]:
    """The values of a column, by the position of the item."""
    rig.scan(POSTS, f"p{rig.seq}", 0, [{"id": str(place), **item} for place, item in enumerate(items)])
    return {int(place): value for place, value in rig.rows(f"SELECT media_id, {column} FROM core.media")}


def nested(path: str, value: object) -> Item:
    for step in reversed(path.removeprefix("/").split("/")):
        value = {step: value}
    assert isinstance(value, dict)
    return value


GRAPH = {
    "id": "17841400000000001", "media_type": "IMAGE", "caption": "Brot", "permalink": "https://i/p/1",
    "media_url": "https://cdn/1.jpg?oe=1", "timestamp": "2026-02-28T12:00:00+0000", "like_count": 7,
    "comments_count": 2,
}  # fmt: skip
CAMEL = {
    "mediaId": "17841400000000001", "mediaType": "IMAGE", "captionText": "Brot", "permalinkUrl": "https://i/p/1",
    "mediaUrl": "https://cdn/1.jpg?oe=1", "publishedAt": "2026-02-28T12:00:00Z", "likeCount": "7",
    "commentsCount": "2",
}  # fmt: skip
NESTED = {
    "pk": 17841400000000001, "media": {"type": "IMAGE", "url": "https://cdn/1.jpg?oe=1"}, "caption": {"text": "Brot"},
    "link": "https://i/p/1", "taken_at": 1772280000, "metrics": {"likes": 7, "comments": 2},
    "owner": {"id": "9", "username": "anna"},
}  # fmt: skip


@pytest.mark.parametrize("item", [GRAPH, CAMEL, NESTED], ids=["Graph", "camelCase", "nested"])
def test_every_shape_finds_its_canonical_columns(rig: Rig, item: Item) -> None:
    rig.scan(POSTS, "p", 0, [item])
    assert rig.row(f"SELECT account_id, surface, media_id, {CANONICAL} FROM core.media") == (
        ANNA, "posts", "17841400000000001", "IMAGE", "Brot", "https://i/p/1", "https://cdn/1.jpg?oe=1", NOON, 7, 2,
    )  # fmt: skip
    assert json.loads(rig.value(f"SELECT gh_payload FROM {rig.kept()}")) == item


def test_every_path_of_the_mapping_is_read(rig: Rig) -> None:
    written = {"published_at": "2026-02-28T12:00:00Z", "like_count": "5", "comments_count": "5"}
    expected = {"published_at": NOON, "like_count": 5, "comments_count": 5}
    paths = [(mapping.column, path) for mapping in BUILT_IN.columns for path in mapping.paths]
    columns = [mapping.column for mapping in BUILT_IN.columns]
    found = read(rig, f"({', '.join(columns)})", [nested(path, written.get(column, "text")) for column, path in paths])
    for place, (column, path) in enumerate(paths):
        assert found[place][columns.index(column)] == expected.get(column, "text"), path


def test_each_time_is_read_by_itself(rig: Rig) -> None:
    others = [value for value in NOT_READ if not isinstance(value, float) or math.isfinite(value)]
    # Each is followed by a time without a zone, which DuckDB would read in the zone of the one before.
    written = [value for each in [*(value for value, _ in READ), *others] for value in (each, "2026-01-02T03:04:05")]
    expected = [time for each in [*(time for _, time in READ), *(None for _ in others)] for time in (each, AT)]
    items = [{"timestamp": value, "seen": value} for value in written]
    assert read(rig, "published_at", items) == dict(enumerate(expected))
    # A scan reads the order of posts by the same times.
    page = json.dumps({"items": [{"id": str(place), **item} for place, item in enumerate(items)]})
    assert [post.published_at for post in post_reader(BUILT_IN)(page)] == expected


def test_counts_may_come_as_numbers_or_strings(rig: Rig) -> None:
    cases: list[tuple[object, int | None]] = [
        (7, 7), ("7", 7), (0, 0), ("0", 0), (2**53 + 1, 2**53 + 1), (str(2**53 + 1), 2**53 + 1), (None, None),
        ("many", None), ("", None), (2**64, None), ("1e400", None), (True, None), ([1], None), ({"count": 9}, 9),
    ]  # fmt: skip
    found = read(rig, "like_count", [{"likes": written} for written, _ in cases])
    assert found == {place: count for place, (_, count) in enumerate(cases)}


def test_a_caption_that_looks_like_json_is_text(rig: Rig) -> None:
    captions = ["{", "[", "{}", '{"text": "no"}', "[x] done", '{"a', "$.id", "{{0}}", "null"]
    expected = dict(enumerate(captions))
    assert read(rig, "caption", [{"caption": text} for text in captions]) == expected
    assert read(rig, "caption", [{"caption": {"text": text}} for text in captions]) == expected


def test_ids_become_text_digit_by_digit(rig: Rig) -> None:
    cases = {
        "1": "1", "2": 2, "0": 0, "-5": -5, "9007199254740993": 2**53 + 1, "18446744073709551617": 2**64 + 1,
        "1" + "0" * 28 + "1": 10**29 + 1, "17_9": "17_9", "[x": "[x", "a\"b'c": "a\"b'c", "é🍲": "é🍲",
    }  # fmt: skip
    rig.scan(POSTS, "p", 0, [{"id": written, "caption": text} for text, written in cases.items()])
    assert dict(rig.rows("SELECT caption, media_id FROM core.media")) == {text: text for text in cases}


def test_items_without_an_id_go_to_quarantine_with_their_position(rig: Rig) -> None:
    inexact = [{"id": 1.78414e16}, {"id": 5.0}, {"id": 1.5}, {"id": True}]
    no_object: list[object] = [None, 7, "x", []]
    no_id = [{"caption": "x"}, {"id": None}, {"id": ""}, {"id": {}}, {"id": [1]}, *inexact, *no_object]
    counts = rig.scan(POSTS, "p", 0, [{"id": "1"}], [{"id": "2"}, *no_id])
    assert counts == MergeStats(added=2, quarantined=len(no_id))
    for place, record in enumerate(no_id, 1):
        code = "inexact_id" if record in inexact else "not_an_object" if record in no_object else "no_id"
        columns = "reason, resource, account_id, surface, page, position, run_id, correlation_id, seen_at"
        assert rig.rows(f"SELECT {columns} FROM core.quarantine WHERE position = {place}") == [(
            REASONS[code],
            "media", ANNA, "posts", 2, place, "run-1", "p-2", minute(0, 2),
        )]  # fmt: skip
        assert json.loads(rig.value(f"SELECT payload FROM core.quarantine WHERE position = {place}")) == record
    assert rig.scan(POSTS, "q", 24, [{"id": "1"}, *no_id]).quarantined == 0
    assert rig.value("SELECT count(*) FROM core.quarantine") == len(no_id)


def test_an_item_nested_too_deep_goes_to_quarantine_and_its_stored_row_is_kept(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [{"id": "1"}, {"id": "2", "caption": "a"}])
    deep = '{"a":' * 250 + "1" + "}" * 250
    text = f'{{"items":[{{"id":"1"}},{{"id":"2","deep":{deep}}}],"next_cursor":null}}'
    rig.land(Scan(POSTS, "q", at(24)).page([1, 2], at(24), last=True, text=text))
    assert rig.merge().quarantined == 1
    assert rig.rows("SELECT media_id, caption, removed_at FROM core.media ORDER BY 1") == [
        ("1", None, None),
        ("2", "a", None),
    ]
    assert rig.row("SELECT position, reason FROM core.quarantine") == (1, "The item is nested deeper than 200 levels.")


@pytest.mark.parametrize("pages", [[[0, 1, 2]], [[0], [1], [2]]], ids=repr)
@pytest.mark.parametrize("merge_each", [True, False])
def test_the_last_occurrence_of_a_duplicate_item_is_used(rig: Rig, pages: list[list[int]], *, merge_each: bool) -> None:
    versions = [{"id": "1", "caption": text} for text in ("old", "new", "new")]
    scan = Scan(POSTS, "p", T0)
    for number, page in enumerate(pages):
        rig.land(scan.page([versions[i] for i in page], at(number), last=number == len(pages) - 1))
        if merge_each:
            rig.merge()
    rig.merge()
    changed = at(min(number for number, page in enumerate(pages) if 1 in page))
    assert rig.rows(f"SELECT caption, {TIMES} FROM core.media") == [("new", T0, changed, changed)]


def image(signature: str, **more: object) -> Item:
    url = f"https://cdn/1.jpg?stp=dst-{signature}&keep=1&_nc_ht=x{signature}&oh={signature}&oe={signature}"
    return {"id": "1", "media_url": url, "children": [{"media_url": url + "&efg=" + signature}], **more}


def test_a_new_signature_in_escaped_text_is_not_a_change(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [image("aaa")])
    text = json.dumps({"items": [image("bbb")]}).replace("&", "\\u0026").replace("/", "\\/")
    rig.land(Scan(POSTS, "q", at(24)).page([{}], at(24), last=True, text=text))
    assert rig.merge() == MergeStats()


def test_a_page_that_is_not_json_is_rejected_and_the_others_land(rig: Rig) -> None:
    scan = Scan(POSTS, "p", T0)
    rig.land(scan.page([], at(0), text="<html>é"), scan.page([{"id": "1"}], at(1)))
    assert rig.merge() == MergeStats(added=1, quarantined=1)
    assert rig.row("SELECT reason, page, position, payload, correlation_id FROM core.quarantine") == (
        "The page is not JSON.", 1, None, "<html>é", "p-1",
    )  # fmt: skip


class Counted:
    """A connection that counts the statements of a merge."""

    def __init__(self, db: DuckDBPyConnection) -> None:
        self.db = db
        self.statements = 0

    def execute(self, query: str, *parameters: object) -> DuckDBPyConnection:
        self.statements += len(self.db.extract_statements(query))
        return self.db.execute(query, *parameters)

    def __getattr__(self, name: str) -> object:
        return getattr(self.db, name)


def test_a_merge_of_what_is_stored_runs_few_statements(rig: Rig) -> None:
    rig.scan(POSTS, "p1", 0, [{"id": "1", "caption": "one"}])
    counted = Counted(rig.connection.db)
    rig.connection = replace(rig.connection, db=cast("DuckDBPyConnection", counted))
    assert rig.scan(POSTS, "p2", 24, [{"id": "1", "caption": "one"}]) == MergeStats()
    assert counted.statements <= 45
    # An item is removed, and listed again.
    for hour, items in ((48, []), (72, []), (96, [{"id": "1", "caption": "one"}])):
        counted.statements = 0
        rig.scan(POSTS, f"p{hour}", hour, items)
    assert counted.statements <= 45
