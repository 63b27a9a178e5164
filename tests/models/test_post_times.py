import json
from datetime import UTC, datetime

import pytest

from models.incremental import Post
from models.mapping import BUILT_IN
from models.page_items import identities, post_reader

NOON = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)
LONG = "9" * 5_000
DEEP = "[" * 250 + "]" * 250

# The JSON of an item, its id, and whether it has a time.
ITEMS = [
    ('{"id":"1","timestamp":"2025-03-01T12:00:00Z"}', "1", True),
    ('{"pk":2,"takenAt":1740830400}', "2", True),
    ('{"id":"3","timestamp":"in March"}', "3", False),
    ('{"id":"4","timestamp":"soon","created_at":"2025-03-01T12:00:00Z"}', "4", True),
    ('{"id":null,"media_id":"m"}', "m", False),
    ("{}", None, False),
    ('"2"', None, False),
    ("null", None, False),
]
# With one of these, the items of a page are read one by one.
ALONE = [
    (f'{{"id":"1","timestamp":{LONG}}}', "1", False),
    (f'{{"id":"1","timestamp":{LONG},"created_at":1740830400}}', "1", True),
    (f'{{"pk":-{LONG},"timestamp":1740830400}}', f"-{LONG}", True),
    (f'{{"n":[{LONG}],"timestamp":1740830400}}', None, True),
    # They go to quarantine.
    (f'{{"id":"1","n":{DEEP},"timestamp":{LONG}}}', None, False),
    ('{"id":"1","n":1e999}', None, False),
]


@pytest.mark.parametrize("alone", [None, *ALONE], ids=range(7))
def test_ids_and_times_are_read_alike_whatever_else_is_on_their_page(
    alone: tuple[str, str | None, bool] | None,
) -> None:
    items = [*ITEMS, *([alone] if alone else [])]
    page = f'{{"items":[{",".join(text for text, _, _ in items)}],"next_cursor":null}}'
    posts = post_reader(BUILT_IN)(page)
    assert posts == [Post(media_id, NOON if has_time else None) for _, media_id, has_time in items]
    assert identities(page, posts) == [media_id or text for text, media_id, _ in items]


def test_ids_identify_items_if_all_have_one() -> None:
    page = json.dumps({"items": [{"id": "1"}, {"id": "1"}]})
    assert identities(page, post_reader(BUILT_IN)(page)) == ["1", "1"]
