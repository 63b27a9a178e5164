import json
from datetime import UTC, datetime
from typing import Any

import pytest

from models.incremental import Post
from models.mapping import BUILT_IN
from models.page_items import identities, post_reader

NOON = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)


def page(*items: object) -> str:
    return json.dumps({"items": items, "next_cursor": None})


def test_ids_and_times_are_found_by_the_mapping() -> None:
    read = post_reader(BUILT_IN)
    assert read(page({"id": "1", "timestamp": "2025-03-01T12:00:00Z"}, {"pk": 2, "takenAt": 1740830400}, 3, {})) == [
        Post("1", NOON),
        Post("2", NOON),
        Post(None, None),
        Post(None, None),
    ]


def test_an_id_is_a_text_or_a_number_at_the_first_path_that_has_one() -> None:
    items = [
        {"id": "", "pk": 7},
        {"id": None, "media_id": "m"},
        {"id": ["2"]},
        {"id": {"a": 1}, "igId": "g"},
        {"id": "[abc"},
        {"id": 1.78414e16, "pk": "7"},
        "2",
        None,
    ]
    expected = ["7", "m", None, "g", "[abc", None, None, None]
    assert [post.media_id for post in post_reader(BUILT_IN)(page(*items))] == expected


def test_posts_are_read_alike_whatever_else_is_on_their_page() -> None:
    read = post_reader(BUILT_IN)
    posts: list[dict[str, Any]] = [
        {"id": "1", "timestamp": "2025-03-01T12:00:00+0000"},
        {"id": "2", "timestamp": "2025-03-01 12:00:00.000000Z"},
        {"id": "3", "timestamp": "in March"},
        {"id": "4", "timestamp": "1740830400"},
        {"id": "5", "timestamp": "\u0662025-03-01T12:00:00Z"},
    ]
    times = [NOON, NOON, None, NOON, None]
    expected = [Post(str(number), at) for number, at in enumerate(times, 1)]
    assert read(page(*posts)) == expected
    # An item without a text as its time is read in another way, and so are the others on its page.
    assert read(page(*posts, {"id": "6", "timestamp": 1740830400})) == [*expected, Post("6", NOON)]


def test_a_time_that_cannot_be_read_gives_way_to_the_next_candidate() -> None:
    item = {"id": "1", "timestamp": "soon", "created_at": "2025-03-01T12:00:00Z"}
    assert post_reader(BUILT_IN)(page(item)) == [Post("1", NOON)]


def test_a_number_beyond_a_double_does_not_reject_its_page() -> None:
    text = '{"items":[{"id":"1","n":1e999},{"id":"2","timestamp":"2025-03-01T12:00:00Z"}],"next_cursor":null}'
    assert post_reader(BUILT_IN)(text) == [Post(None, None), Post("2", NOON)]


LONG = "9" * 5_000


@pytest.mark.parametrize(
    ("item", "post"),
    [
        (f'{{"id":"1","timestamp":{LONG}}}', Post("1", None)),
        (f'{{"id":"1","timestamp":{LONG},"created_at":1740830400}}', Post("1", NOON)),
        (f'{{"id":"1","n":{LONG},"timestamp":1740830400}}', Post("1", NOON)),
        (f'{{"id":"1","pk":-{LONG},"timestamp":1740830400}}', Post("1", NOON)),
        (f'{{"pk":-{LONG},"timestamp":1740830400}}', Post(f"-{LONG}", NOON)),
        (f'{{"n":[{LONG}],"timestamp":1740830400}}', Post(None, NOON)),
    ],
    ids=["the time", "the first time", "no id or time", "another id", "the only id", "without an id"],
)
def test_an_item_with_an_integer_of_any_length_is_read(item: str, post: Post) -> None:
    text = f'{{"items":[{item},{{"id":"2","timestamp":1740830400}},null],"next_cursor":null}}'
    posts = post_reader(BUILT_IN)(text)
    assert posts == [post, Post("2", NOON), Post(None, None)]
    assert identities(text, posts) == [post.media_id or item, "2", "null"]


def test_an_item_that_is_nested_too_deep_does_not_reject_its_page() -> None:
    # A time that msgspec does not read makes the page one that is read item by item.
    items = [f'{{"id":"{n}","n":{"[" * 250}{n}{"]" * 250}}}' for n in (1, 2)]
    text = f'{{"items":[{items[0]},{items[1]},{{"id":"3","timestamp":{LONG}}}],"next_cursor":null}}'
    posts = post_reader(BUILT_IN)(text)
    assert posts == [Post(None, None), Post(None, None), Post("3", None)]
    assert identities(text, posts) == [*items, "3"]
