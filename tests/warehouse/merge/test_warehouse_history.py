import json
from dataclasses import replace
from datetime import datetime
from itertools import product

import pytest

from connectors.warehouse.schema.field_registry import read_registry
from models.mapping import BUILT_IN, ColumnMapping, Mapping, Reading
from models.schema.table_schemas import table_schemas
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


def test_any_other_list_of_children_is_a_change(rig: Rig) -> None:
    """Also if they only change places, or all change to the same value."""
    lists = [one for size in range(3) for one in product(("x", "y"), repeat=size)]
    lists += [("x", "y", "y"), ("y", "x", "y"), ("y", "y", "x"), ("x",) * 4, ("y",) * 4]
    numbers = {"x": 1, "y": 2}

    def named(names: tuple[str, ...]) -> Item:
        return {"tags": [{"name": name} for name in names]}

    def counted(names: tuple[str, ...]) -> Item:
        return {"tags": [{"likes": numbers[name]} for name in names]}

    def moved(names: tuple[str, ...]) -> Item:
        return {"tags" if name == "x" else "users": [{"name": "z"}] * names.count(name) for name in set(names)}

    pairs = [(make(one), make(other)) for make in (named, counted, moved) for one, other in product(lists, lists)]
    for day in range(2):
        rig.scan(POSTS, f"p{day}", 24 * day, [{"id": str(n), **pair[day]} for n, pair in enumerate(pairs)])
    changed = {int(one) for (one,) in rig.rows("SELECT media_id FROM core.media WHERE changed_at > first_seen_at")}
    assert changed == {n for n, (one, other) in enumerate(pairs) if one != other}
    found = "SELECT media_id, position, name, likes FROM core.media_tags ORDER BY ALL"
    before = rig.rows(found)
    rig.rebuild()
    assert rig.rows(found) == before


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


def test_each_change_of_a_count_beside_the_canonical_one_is_kept(rig: Rig) -> None:
    rig.days(*({"like_count": 5, "likes": likes} for likes in (7, 9, 11)))
    assert rig.row("SELECT like_count, likes FROM core.media") == (5, 11)
    assert rig.rows("SELECT sum(changed) FROM core.run_counts") == [(2,)]
    assert rig.rows(COUNTS) == [
        ("like_count", 5, minute(0)), ("likes", 7, minute(0)), ("likes", 9, minute(24)), ("likes", 11, minute(48)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("other", "column"),
    [
        ({"like_count": "many"}, "like_count_2"),
        ({"like_count": {"value": 1}}, "like_count_2"),
        ({"like_count": "many", "likes": 3}, "like_count_2"),
        ({"like_count": 3, "likes": 3}, "likes"),
        ({"like_count": None, "stats": {"likes": 3}, "likes": "3"}, "likes"),
    ],
)
def test_a_count_that_the_canonical_column_shows_is_kept_once(rig: Rig, other: Item, column: str) -> None:
    """The field has a column of its own, which has all its values."""
    for day in range(2):
        counts = [{"like_count": 5 + day}, {"likes": 7 + day}]
        rig.scan(POSTS, f"p{day}", 24 * day, [{"id": str(n), **one} for n, one in enumerate((*counts, other))])
    assert rig.value(f"SELECT count({column}) FROM core.media") > 0
    readable = {"2"} if 3 in (other.get("likes"), other["like_count"]) or "stats" in other else set()
    found = rig.rows("SELECT media_id, metric, value FROM core.media_metrics ORDER BY ALL")
    assert found == [
        *((str(n), "like_count", value + day) for n, value in enumerate((5, 7)) for day in range(2)),
        *((one, "like_count", 3) for one in readable),
    ]


def test_a_count_with_the_value_of_the_canonical_one_is_null_meanwhile(rig: Rig) -> None:
    rig.days(*({"like_count": 9, "likes": likes} for likes in (7, 9, 11)), {"likes": 11})
    assert [row[1:] for row in rig.rows(COUNTS) if row[0] == "likes"] == [
        (7, minute(0)), (None, minute(24)), (11, minute(48)), (None, minute(72)),
    ]  # fmt: skip


def metrics(rig: Rig, mapping: Mapping = BUILT_IN) -> list[str]:
    [media, *_] = table_schemas(mapping, rig.call(read_registry))
    return [metric.name for metric in media.metrics]


def test_a_flag_is_content_and_no_count(rig: Rig) -> None:
    rig.days({"saved": True, "views": 1}, {"saved": False, "views": 1})
    assert metrics(rig) == ["like_count", "comments_count", "views"]
    assert rig.rows(COUNTS) == [("views", 1, minute(0))]
    assert len(versions(rig)) == 1


def test_a_count_that_is_mapped_as_a_text_is_no_metric(rig: Rig) -> None:
    rig.days({"views": 1}, {"views": [1]})
    mapping = replace(BUILT_IN, columns=(*BUILT_IN.columns, ColumnMapping("seen", Reading.TEXT, ("/views",))))
    rig.rebuild(mapping)
    assert rig.value("SELECT count(*) FROM duckdb_columns() WHERE column_name = 'views'") > 0
    assert metrics(rig, mapping) == ["like_count", "comments_count"]


def test_counts_that_earlier_releases_did_not_keep_begin_with_their_next_change(rig: Rig) -> None:
    def listed(**more: object) -> list[Item]:
        return [{"id": "1", "like_count": 5, "likes": 7, **more}, {"id": "2", "like_count": 5, "likes": 7}]

    rig.scan(POSTS, "p", 0, listed())
    rig.do("DELETE FROM core.media_metrics WHERE metric = 'likes'")
    before = rig.rows(COUNTS)
    # The same bytes, and others with the same values.
    for day, items in enumerate((listed(), listed(likes="7")), 1):
        stats = rig.scan(POSTS, f"q{day}", 24 * day, items)
        assert (stats.added, stats.changed) == (0, 0)
    assert rig.rows(COUNTS) == before
    assert rig.scan(POSTS, "r", 72, listed(like_count=6)).changed == 1
    assert rig.rows(COUNTS) == [*before, ("like_count", 6, minute(72))]
    assert rig.scan(POSTS, "s", 96, listed(likes=9)).changed == 1
    likes = "SELECT media_id, value, observed_at FROM core.media_metrics WHERE metric = 'likes' ORDER BY ALL"
    assert rig.rows(likes) == [("1", 9, minute(96))]
    changed = rig.rows("SELECT changed_at FROM core.media ORDER BY media_id")
    rig.rebuild()
    assert rig.rows(likes) == [("1", 9, minute(96)), ("2", 7, minute(0))]
    assert rig.rows("SELECT changed_at FROM core.media ORDER BY media_id") == changed
