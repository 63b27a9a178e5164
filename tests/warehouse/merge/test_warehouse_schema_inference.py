import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.declared import TABLES
from models.schema.fields import AND_MORE, MOST_COLUMNS, MOST_FIELDS
from tests.warehouse.merge.test_warehouse_batches import rows_after
from tests.warehouse.rig import POSTS, STORIES, T0, Item, Rig, Row, Scan, at, emptied

Day = list[list[Item]]


def columns(rig: Rig, table: str) -> dict[str, str]:
    query = "SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name = 'core' AND table_name = "
    return {str(name): str(kind) for name, kind in rig.rows(f"{query}'{table}'")}


def land(rig: Rig, days: Sequence[Day], cuts: Sequence[bool]) -> None:
    """Land one scan per day and one page per hour, and merge after each page whose `cuts` value is true."""
    page = 0
    for number, day in enumerate(days):
        scan = Scan(POSTS, f"day {number}", at(24 * number))
        for place, items in enumerate(day):
            rig.land(scan.page(items, at(24 * number + place), last=place == len(day) - 1))
            if cuts[page % len(cuts)]:
                rig.merge()
            page += 1
    rig.merge()


@pytest.mark.parametrize("cut", [False, True])
def test_a_difference_only_in_a_key_with_a_nul_character_is_not_a_change(rig: Rig, *, cut: bool) -> None:
    land(rig, [[[{"id": "0"}], [{"id": "0", "g\0h": False}]]], [cut])
    assert rig.rows(f"SELECT gh_payload FROM {rig.kept()}") == [('{"id":"0"}',)]
    assert rig.rows("FROM core.media_superseded") == []


@pytest.mark.parametrize("value", [[0], [{"a": 1}]])
def test_a_list_in_place_of_a_mapped_text_is_a_change_and_has_a_column_of_its_own(
    opened_rig: Connection, value: list[object]
) -> None:
    rig = emptied(opened_rig)
    days: list[Day] = [[[{"id": "0", "caption": "x"}]], [[{"id": "0", "caption": value}]], [[{"id": "0"}]]]
    land(rig, days[:2], [True])
    assert rig.rows("SELECT count(*) FROM core.media_superseded") == [(1,)]
    land(rig, days[2:], [True])
    assert rig.rows("SELECT count(*) FROM core.media_superseded") == [(2,)]


NOON = datetime.fromisoformat("2026-02-28T12:00:00Z")


# The values of a field in two items, the type of its column, and the values in the column.
WIDENED: list[tuple[object, object, str, Row]] = [
    (True, False, "BOOLEAN", (True, False)),
    (7, -(2**63), "BIGINT", (7, -(2**63))),
    (7, 1.5, "DOUBLE", (7.0, 1.5)),
    (7, "1.50", "VARCHAR", ("7", "1.50")),
    ("1.50", 7, "VARCHAR", ("1.50", "7")),
    (7, 2**63, "VARCHAR", ("7", "9223372036854775808")),
    (1.5, 2**70, "VARCHAR", ("1.5", str(2**70))),
    (True, 1, "VARCHAR", ("true", "1")),
    ("2026-02-28T12:00:00Z", "2026-02-28T13:00:00+0100", "TIMESTAMP WITH TIME ZONE", (NOON, NOON)),
    ("2026-02-28T13:00:00+0100", "soon", "VARCHAR", ("2026-02-28T13:00:00+0100", "soon")),
    (None, "2026-02-28T12:00:00Z", "TIMESTAMP WITH TIME ZONE", (None, NOON)),
    ("2026-02-28T12:00:00", None, "VARCHAR", ("2026-02-28T12:00:00", None)),
    ([1], [2, None], "BIGINT[]", ([1], [2, None])),
    ([1], [1.5], "DOUBLE[]", ([1.0], [1.5])),
    ([1], ["x"], "VARCHAR[]", (["1"], ["x"])),
    ([1], [2**70], "VARCHAR[]", (["1"], [str(2**70)])),
    ([], [1], "BIGINT[]", ([], [1])),
    ([], "x", "VARCHAR", ("[]", "x")),
    ([1], 1, "VARCHAR", ("[1]", "1")),
    ([1, "x"], [1], "VARCHAR", ('[1,"x"]', "[1]")),
    ([[1]], None, "VARCHAR", ("[[1]]", None)),
    ({"y": 1}, "x", "VARCHAR", ('{"y":1}', "x")),
    ([{"y": 1}], "x", "VARCHAR", ('[{"y":1}]', "x")),
    ([1, {"y": 1}], [{"y": 1}], "VARCHAR", ('[1,{"y":1}]', '[{"y":1}]')),
]


@pytest.mark.parametrize("at_once", [True, False])
def test_columns_widen_and_are_read_again(rig: Rig, *, at_once: bool) -> None:
    first, second = ({f"x{n}": case[place] for n, case in enumerate(WIDENED)} for place in (0, 1))
    land(rig, [[[{"id": "1", **first}], [{"id": "2", **second}]]], [not at_once])
    there = columns(rig, "media")
    for n, (_, _, kind, found) in enumerate(WIDENED):
        assert there[f"x{n}"] == kind, WIDENED[n]
        values = rig.rows(f"SELECT x{n} FROM core.media ORDER BY media_id")
        assert tuple(value for (value,) in values) == found, WIDENED[n]


# The values of one key of an item in successive pages.
IN_TURN: list[list[Any]] = [
    [["99999999999999999999"], [1]],
    [[2**70, "x"], [1]],
    [None, "2026-01-01T00:00:00Z", None],
    ["x", "2026-01-01T00:00:00Z", 1],
    ["2026-01-01T00:00:00Z", "x"],
    [[{"y": "x"}, {"y": 1}], [{"y": "2026-01-01T00:00:00Z"}]],
    [[{"y": 2**70}, {"y": "x"}], [{"y": 1}]],
    [[{"y": 1}, {"Y": 2}], [{"Y": 3}], [{"y": {}}]],
    [[1, {"y": "2026-01-01T00:00:00Z"}], [{"y": "x"}]],
    [[1, {"y": "x"}], [{"y": 5}]],
    [[{"y": 1}, None, {"y": 2}], [{"y": 3}, 4]],
    [[], [{"y": []}], [{"y": [1]}]],
    [{"0": [1]}, ["x"]],
    [{"0": 1}, ["x"], {"0": "y"}],
    [{"0": [{"y": 1}]}, [[{"y": "x"}]]],
    [{"y": 1, "Y": "x"}, {"y_2": True}, {"Y": None}],
    [{"y": []}, {"y": {}}, {"y": 1}],
]


def test_changes_of_type_merge_to_the_same_rows_page_by_page(opened_rig: Connection) -> None:
    pages, scan = max(map(len, IN_TURN)), Scan(POSTS, "scan", T0)
    landed = [
        scan.page(
            [{"id": str(page), **{f"x{n}": each[page] for n, each in enumerate(IN_TURN) if page < len(each)}}], at(page)
        )
        for page in range(pages)
    ]
    assert rows_after(opened_rig, landed, set(range(pages))) == rows_after(opened_rig, landed, set())


def test_fields_may_be_called_as_the_merge_calls_its_own(rig: Rig) -> None:
    names = ("position", "seq", "counts", "found", "received_at", "page", "scan_id", "payload")
    children = [{**dict.fromkeys(names, "y"), "media_id": "z", "surface": 1, "account_id": 2}]
    item: Item = {"id": "1", **dict.fromkeys(names, "x"), "tags": children}
    days: list[Day] = [[[item], [{**item, "id": "2", "caption": "a"}]], [[{**item, "caption": "b"}]]]
    land(rig, days, [True])
    listed = ", ".join(names)
    assert rig.rows(f"SELECT {listed} FROM core.media") == [("x",) * len(names)] * 2
    of_child = f"{listed.replace('position', 'position_2')}, media_id_2, surface_2, account_id_2"
    assert rig.rows(f"SELECT {of_child} FROM core.media_tags") == [(*("y",) * len(names), "z", 1, 2)] * 2


def test_the_page_after_too_many_fields_merges_like_any_other(rig: Rig) -> None:
    many = {f"f{number}": number for number in range(MOST_FIELDS + 10)}
    rig.scan(POSTS, "p", 0, [{"id": "1", **many}])
    rig.scan(STORIES, "s", 1, [{"id": "1", "later": 1, "f0": "x", "f299": 1}])
    assert rig.row("SELECT f0, f298 FROM core.media WHERE surface = 'posts'") == ("0", 298)
    there = columns(rig, "media").keys() - TABLES["core.media"].types.keys()
    assert there == {f"f{number}" for number in range(MOST_COLUMNS - 1)}
    found = {path: row for path, *row in rig.rows("SELECT path, column_name, type, name FROM core.fields")}
    assert len(found) == MOST_FIELDS + 1
    assert found[AND_MORE] == [None, None, ""]
    assert found["/f400"][0] is None
    assert "/later" not in found


def test_kinds_are_known_since_the_page_that_showed_them_first(rig: Rig) -> None:
    land(rig, [[[{"id": "1", "x": 1}], [{"id": "2", "x": 2.5}], [{"id": "3", "x": 3}]]], [False])
    (kinds,) = rig.row("SELECT json_types FROM core.fields WHERE path = '/x'")
    assert json.loads(kinds) == {"integer": T0.isoformat(), "number": at(1).isoformat()}
    assert rig.row("SELECT first_seen_at, last_type_change_at FROM core.fields WHERE path = '/x'") == (T0, at(1))


def test_values_of_each_candidate_path_are_kept(rig: Rig) -> None:
    items: list[Item] = [
        {"id": "1", "like_count": 5, "likes": 6},
        {"id": "2", "likes": 7},
        {"id": "3", "like_count": "many"},
        {"id": "4", "like_count": 1.5},
    ]
    for cut in (True, False):
        rig = emptied(rig.connection)
        land(rig, [[[item] for item in items]], [cut])
        assert rig.rows("SELECT like_count, likes, like_count_2 FROM core.media ORDER BY media_id") == [
            (5, 6, "5"), (7, 7, None), (None, None, "many"), (None, None, "1.5"),
        ]  # fmt: skip


def test_children_of_all_candidate_lists_are_concatenated(rig: Rig) -> None:
    item: Item = {
        "id": "1",
        "carousel": [{"id": "c", "w": 1}],
        "children": {"data": [{"id": "a"}, {"id": "b", "w": "x"}]},
    }
    days: list[Day] = [[[{"id": "1", "carousel": [{"pk": "z"}]}], [item]]]
    for cut in (True, False):
        rig = emptied(rig.connection)
        land(rig, days, [cut])
        assert rig.rows("SELECT position, child_id, w FROM core.media_children ORDER BY 1") == [
            (0, "a", None), (1, "b", "x"), (2, "c", "1"),
        ]  # fmt: skip
