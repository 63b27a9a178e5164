import json
from datetime import datetime

from tests.warehouse.rig import POSTS, Item, Rig, Scan, at, minute

COUNTS = "SELECT metric, value, observed_at FROM core.media_metrics ORDER BY observed_at, metric"


def versions(rig: Rig) -> list[tuple[datetime, datetime, Item]]:
    kept = rig.kept("core.media_superseded")
    rows = rig.rows(f"SELECT valid_from, valid_to, gh_payload FROM {kept} ORDER BY 1, 2")
    return [(since, until, json.loads(payload)) for since, until, payload in rows]


def test_several_changes_in_one_merge_are_all_kept(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [{"id": "1", "caption": "a", "likes": 1}])
    scan = Scan(POSTS, "q", at(24))
    for hour, (caption, likes) in enumerate([("a", 2), ("b", 2), ("b", 3), ("b", 3), ("a", 4)], 24):
        rig.land(scan.page([{"id": "1", "caption": caption, "likes": likes}], at(hour)))
    rig.merge()
    assert [(since, until, item["caption"], item["likes"]) for since, until, item in versions(rig)] == [
        (minute(0), at(25), "a", 2),
        (at(25), at(28), "b", 3),
    ]
    assert [row[1:] for row in rig.rows(COUNTS)] == [(1, minute(0)), (2, at(24)), (3, at(26)), (4, at(28))]
    assert rig.row("SELECT caption, content_changed_at FROM core.media") == ("a", at(28))


def test_a_list_that_moves_to_another_field_is_a_new_version(rig: Rig) -> None:
    rig.days({"a": [7], "b": [1]}, {"a": [7]}, {"b": [7]})
    assert [item for _, _, item in versions(rig)] == [{"id": "1", "a": [7], "b": [1]}, {"id": "1", "a": [7]}]


COUNTED: list[tuple[Item, Item]] = [
    ({"likes": 1}, {}),
    ({"likes": 1}, {"likes": None}),
    ({"likes": "1"}, {"likes": 2.0}),
    ({"stats": {"saves": 1}}, {"stats": {"saves": 2}}),
    ({"stats": {"saves": 1, "x": 1}}, {"stats": {"x": 1}}),
    ({"viewCount": -1}, {"viewCount": 12345678901234567}),
    ({"tags": [{"likes": 1, "name": "x"}]}, {"tags": [{"likes": 2, "name": "x"}]}),
]
CHANGED: list[tuple[Item, Item]] = [
    ({"likes": "many"}, {"likes": "few"}),
    ({"likes": 1.5}, {"likes": 2.5}),
    ({"account": 1}, {"account": 2}),
    ({"caption": '"likes":1'}, {"caption": '"likes":2'}),
    ({"caption": "oe=1"}, {"caption": "oe=2"}),
    ({"tags": [{"name": "x"}]}, {"tags": [{"name": "y"}]}),
]


def test_fields_that_are_content_make_a_version_and_counts_make_none(rig: Rig) -> None:
    cases = [*COUNTED, *CHANGED]
    for day in range(2):
        items = [{"id": str(number), **changes[day]} for number, changes in enumerate(cases)]
        rig.scan(POSTS, f"p{day}", 24 * day, items)
    expected = [{"id": str(number), **before} for number, (before, _) in enumerate(CHANGED, len(COUNTED))]
    assert sorted((item for *_, item in versions(rig)), key=lambda item: int(item["id"])) == expected
    assert rig.rows("SELECT DISTINCT changed_at FROM core.media") == [(minute(24),)]


def test_both_occurrences_of_an_item_on_one_page_are_kept(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [{"id": "1", "caption": "a", "likes": 1}, {"id": "1", "caption": "b", "likes": 2}])
    assert versions(rig) == [(minute(0), minute(0), {"id": "1", "caption": "a", "likes": 1})]
    assert sorted(rig.rows(COUNTS), key=repr) == [("like_count", 1, minute(0)), ("like_count", 2, minute(0))]
