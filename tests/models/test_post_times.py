import json
from datetime import UTC, datetime
from typing import Any

from models.incremental import Post
from models.page_items import post_reader
from models.schema.mapping_built_in import BUILT_IN

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
    text = '{"items":[{"id":"1","n":1e999,"timestamp":"2025-03-01T12:00:00Z"}],"next_cursor":null}'
    assert post_reader(BUILT_IN)(text) == [Post("1", NOON)]
