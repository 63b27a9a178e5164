"""Lists of objects in the setting `ignore`: a different number of elements is no change, and the last ones are kept."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from connectors.warehouse.maintenance.opening import adopt_mapping
from connectors.warehouse.merge.run_counts import MergeStats
from models.mapping import BUILT_IN
from models.schema.fields import MOST_COLUMNS
from tests.warehouse.rig import POSTS, Item, Rig

# Fields beyond those that get a column.
MANY = {f"f{number}": number for number in range(MOST_COLUMNS)}


def ignore(rig: Rig, *paths: str) -> None:
    rig.call(adopt_mapping, replace(BUILT_IN, ignore=paths))


def viewed(viewers: object, **more: object) -> Item:
    return {"id": "1", "caption": "c", "viewers": viewers, "tags": [{"tag": "a"}], **more}


def viewers(*ids: object) -> list[Item]:
    return [{"id": one, "views": 2} for one in ids]


@pytest.mark.parametrize("paths", [("/viewers",), ("/viewers/*",), ("/*/id", "/viewers/views")])
def test_an_element_more_or_less_of_an_ignored_list_is_no_change_and_the_last_ones_are_kept(
    rig: Rig, paths: Sequence[str]
) -> None:
    ignore(rig, *paths)
    rig.scan(POSTS, "first", 0, [viewed(viewers(1)), {"id": "2", "viewers": viewers(8)}])
    other = rig.rows("FROM core.media_viewers WHERE media_id = '2'")
    for day, ids in enumerate(((1, 2, 3), (3,), (), (4, 5)), 1):
        counts = rig.scan(POSTS, f"scan {day}", 24 * day, [viewed(viewers(*ids)), {"id": "2", "viewers": viewers(8)}])
        assert counts == MergeStats()
        found = rig.rows("SELECT id, position FROM core.media_viewers WHERE media_id = '1' ORDER BY position")
        assert found == [(one, position) for position, one in enumerate(ids)]
    assert rig.rows("FROM core.media_viewers WHERE media_id = '2'") == other
    assert rig.rows("FROM core.media_superseded") == []
    # The last of several in one merge is kept, too.
    assert rig.scan(POSTS, "pages", 240, [viewed(viewers(6))], [viewed(viewers(7, 8)), {"id": "2"}]) == MergeStats()
    assert rig.rows("SELECT id FROM core.media_viewers ORDER BY ALL") == [(7,), (8,)]
    # Other fields and lists are compared nevertheless.
    assert rig.scan(POSTS, "caption", 264, [viewed(viewers(9), caption="d"), {"id": "2"}]).changed == 1
    assert rig.rows("SELECT id FROM core.media_viewers") == [(9,)]
    tags = [{"tag": "a"}, {"tag": "b"}]
    assert rig.scan(POSTS, "tags", 288, [viewed(viewers(9), caption="d", tags=tags), {"id": "2"}]).changed == 1


@pytest.mark.parametrize("paths", [("/viewers/id",), ("/viewers/views",), ("/view",)])
def test_an_element_more_is_a_change_if_only_some_fields_are_ignored(rig: Rig, paths: Sequence[str]) -> None:
    ignore(rig, *paths)
    rig.scan(POSTS, "first", 0, [viewed(viewers(1))])
    assert rig.scan(POSTS, "second", 24, [viewed(viewers(1, 2))]).changed == 1


def test_the_mapped_children_of_an_item_may_be_ignored(rig: Rig) -> None:
    ignore(rig, "/children")
    for day in range(3):
        children = [{"id": str(number), "media_url": "u", "like_count": day} for number in range(day)]
        counts = rig.scan(POSTS, f"day {day}", 24 * day, [{"id": "1", "children": {"data": children}}])
        assert (counts.changed, rig.value("SELECT count(*) FROM core.media_children")) == (0, day)


def test_elements_are_compared_although_another_list_that_fills_their_table_is_ignored(rig: Rig) -> None:
    def pictured(alt: str) -> list[Item]:
        pictures = [{"id": "a", "alt": alt}]
        return [{"id": "1", "children": [{"id": "b", "alt": "x"}]}, {"id": "2", "carousel_media": pictures}]

    ignore(rig, "/children")
    rig.scan(POSTS, "first", 0, pictured("x"))
    assert rig.scan(POSTS, "second", 24, pictured("y")).changed == 1
    payload = rig.value(f"SELECT gh_payload FROM {rig.kept()} WHERE media_id = '2'")
    assert json.loads(payload) == pictured("y")[1]
    assert rig.rows("SELECT media_id FROM core.media_superseded") == [("2",)]
    ignore(rig, "/children/alt", "/carousel_media/alt")
    assert rig.scan(POSTS, "third", 48, pictured("z")) == MergeStats()


def test_an_ignored_list_whose_column_widens_has_the_rows_of_the_raw_store_until_it_is_received_again(rig: Rig) -> None:
    ignore(rig, "/viewers")
    rig.scan(POSTS, "first", 0, [viewed(viewers(1, 2)), {"id": "2"}])
    rig.scan(POSTS, "second", 24, [viewed(viewers(3)), {"id": "2"}])
    rig.scan(POSTS, "third", 48, [viewed(viewers(3)), {"id": "2", "viewers": viewers("x")}])
    assert rig.rows("SELECT media_id, id FROM core.media_viewers ORDER BY ALL") == [("1", "1"), ("1", "2"), ("2", "x")]
    rig.scan(POSTS, "fourth", 72, [viewed(viewers(4)), {"id": "2", "viewers": viewers("x")}])
    assert rig.rows("SELECT media_id, id FROM core.media_viewers ORDER BY ALL") == [("1", "4"), ("2", "x")]


@pytest.mark.parametrize(
    "lists",
    [
        [[], [{"id": 1}], [{"id": 1, "of": ["]", 2]}, {"id": 2}], [{"id": 3, "of": {"a": [{"b": '"]'}]}}]],
        [[[1]], [[1, 2], [3, [4, ["x"]]], "],"]],
    ],
    ids=["objects", "lists"],
)
@pytest.mark.parametrize("before", [{}, MANY], ids=["columns", "no column"])
def test_a_list_that_is_kept_as_json_may_be_ignored(rig: Rig, before: Item, lists: Sequence[object]) -> None:
    ignore(rig, "/viewers")
    other = {"id": "2", **before, "viewers": [[0], {}]}
    for day, value in enumerate(lists):
        item = {"id": "1", **before, "viewers": value, "zoom": 1}
        assert rig.scan(POSTS, f"day {day}", 24 * day, [item, other]).changed == 0
    last = {"id": "1", **before, "viewers": lists[-1], "zoom": 2}
    assert rig.scan(POSTS, "last", 240, [last, other]).changed == 1
