import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from connectors.warehouse.schema.field_registry import read_mapping, read_registry
from connectors.warehouse.storage.connection import Connection
from models.schema.fields import AND_MORE, MOST_COLUMNS, MOST_FIELDS
from models.schema.mapping_built_in import BUILT_IN
from models.schema.pointer import to_keys
from models.schema.table_schemas import history, table_schemas
from models.tables import core_children, core_media, core_superseded
from tests.model import reading
from tests.warehouse.rig import POSTS, STORIES, T0, Item, Rig, Row, Scan, at, emptied

Day = list[list[Item]]
Keys = tuple[str, ...]

CANDIDATES = {path for column in BUILT_IN.columns for path in column.paths} | set(BUILT_IN.media_id)
CHILD_CANDIDATES = {path for column in BUILT_IN.child_columns for path in column.paths}
KEY = ("account_id", "surface", "media_id")


def paths(item: Item, above: Keys = ()) -> Iterator[Keys]:
    for key, value in item.items():
        keys = (*above, key)
        if "\0" not in key:
            yield keys
            if isinstance(value, dict) and len(keys) < 8:
                yield from paths(value, keys)


def objects(item: Item, lists: Sequence[str]) -> Iterator[tuple[int, Item]]:
    """Return the elements of the lists at these paths, with their positions."""
    every = (reading.at(item, path) for path in lists)
    elements = [
        element
        for one in every
        if isinstance(one, list) and all(element is None or isinstance(element, dict) for element in one)
        for element in one
    ]
    return ((place, element) for place, element in enumerate(elements) if element is not None)


# The contents of a warehouse.


def columns(rig: Rig, table: str) -> dict[str, str]:
    query = "SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name = 'core' AND table_name = "
    return {str(name): str(kind) for name, kind in rig.rows(f"{query}'{table}'")}


def child_tables(rig: Rig) -> list[str]:
    found = rig.rows("SELECT DISTINCT child_table FROM core.fields WHERE child_table IS NOT NULL")
    return ["media_children", *(str(name) for (name,) in sorted(found))]


def records(rig: Rig, table: str) -> list[dict[str, Any]]:
    names = sorted(columns(rig, table))
    source = f"core.{table}"
    if table in {"media", "media_superseded"}:
        source = rig.kept(source)
        names.append("gh_payload")
    listed = ", ".join(f'"{name}"' for name in names)
    orders = {"media": "first_seen_at", "media_superseded": "valid_from, valid_to, raw_landed"}
    order = f"account_id, surface, media_id, {orders.get(table, 'position')}"
    rows = rig.rows(f"SELECT {listed} FROM {source} ORDER BY {order}")
    return [dict(zip(names, row, strict=True)) for row in rows]


def contents(rig: Rig) -> dict[str, Any]:
    tables = ["media", "media_superseded", *child_tables(rig)]
    return {
        "fields": rig.rows("SELECT * FROM core.fields ORDER BY resource, ordinal"),
        "metrics": rig.rows("SELECT * FROM core.media_metrics ORDER BY ALL"),
        **{table: (columns(rig, table), records(rig, table)) for table in tables},
    }


def fields(rig: Rig, resource: str) -> dict[str, dict[str, Any]]:
    names = ("path", "column_name", "type", "name", "child_table", "ordinal", "json_types")
    rows = rig.rows(f"SELECT {', '.join(names)} FROM core.fields WHERE resource = '{resource}'")
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


def check_value(kind: str, found: Any, value: Any) -> None:  # noqa: ANN401 - a column is anything
    is_empty = reading.present(value) is None and found in (None, "[]", "{}", [])
    is_null = value is None and found is None
    assert is_empty or is_null or reading.same(found, value, kind), (kind, found, value)


def check_versions(rig: Rig) -> None:
    """Compare each column of earlier versions with their payloads; they must have all content columns."""
    there, media = columns(rig, "media_superseded"), columns(rig, "media")
    with rig.connection.begin():
        mapping, registry = read_mapping(rig.connection), read_registry(rig.connection)
    schema = history(table_schemas(mapping, registry)[0], mapping)
    assert {column.name: media[column.name] for column in schema.columns}.items() <= there.items()
    assert there.keys() == {*core_superseded.c.keys(), *(column.name for column in schema.columns)}
    for record in records(rig, "media_superseded"):
        item = json.loads(record["gh_payload"])
        for path, row in fields(rig, "media").items():
            if row["name"] in there:
                check_value(there[row["name"]], record[row["name"]], reading.at(item, path))


def check_table(
    rig: Rig, table: str, own: set[str], seen: Sequence[Item], rows: Sequence[tuple[Item, dict[str, Any]]]
) -> None:
    """Compare each column of a table with all items (or children) ever seen, and those that are stored."""
    there, known = columns(rig, table), fields(rig, table)
    met = {keys for item in seen for keys in paths(item)}
    assert {to_keys(path) for path in known} == met
    candidates = CANDIDATES if table == "media" else CHILD_CANDIDATES if table == "media_children" else set()
    expected: dict[str, str] = {}
    for path, row in known.items():
        keys = to_keys(path)
        kinds = {reading.kind(reading.at(item, path), len(keys), in_element=table != "media") for item in seen}
        kind = reading.column_type({kind for kind in kinds if kind is not None})
        if path in candidates and row["name"] not in there:
            continue
        if kind is not None:
            expected[row["name"]] = kind
        if row["column_name"] is not None and row["type"] != "ROWS" and path not in candidates:
            assert (row["column_name"], row["type"]) == (row["name"], kind)
        for item, record in rows:
            if kind is not None:
                check_value(kind, record[row["name"]], reading.at(item, path))
    assert {name: kind for name, kind in there.items() if name not in own} == expected


def text_of(column: str, value: object) -> str:
    """Return the text of a scalar that a mapped column reads; equal for equal values of the column."""
    if isinstance(value, str):
        return "2026-01-01T00:00:00Z" if column == "published_at" and value == "2026-01-01" else value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return json.dumps(value)


def mapped(item: Item) -> Item:
    """Return the parts of an item that are compared with its stored payload.

    The first scalar among a mapped column's candidate paths is moved to one key, because its path is not content. Keys
    with a NUL character are left out: no column holds them, so a difference only there does not replace the payload.
    """
    found: Item = reading.present(item)
    for column in BUILT_IN.columns:
        for path in column.paths:
            key = to_keys(path)[-1]
            holder = reading.at(found, path.rpartition("/")[0])
            if isinstance(holder, dict) and isinstance(value := holder.get(key), bool | int | float | str):
                del holder[key]
                found[f"mapped {column.column}"] = text_of(column.column, value)
                break
    return dict(reading.present(found))


def check(rig: Rig, days: Sequence[Day]) -> None:
    """Compare each inferred column of each row with the row's payload."""
    seen = [item for day in days for page in day for item in page]
    last = {str(item["id"]): item for item in seen}
    media = records(rig, "media")
    stored = {record["media_id"]: mapped(json.loads(record["gh_payload"])) for record in media}
    assert stored == {media_id: mapped(item) for media_id, item in last.items()}
    rows = [(last[record["media_id"]], record) for record in media]
    check_table(rig, "media", set(core_media.c.keys()), seen, rows)
    check_versions(rig)
    lists: dict[str, list[str]] = {"media_children": []}
    for path, row in fields(rig, "media").items():
        if any(reading.kind(reading.at(item, path), 1) == "rows" for item in seen):
            table = "media_children" if path in BUILT_IN.children else row["child_table"]
            lists.setdefault(table, []).append(path)
    assert sorted(lists) == sorted(child_tables(rig))
    lists["media_children"].sort(key=BUILT_IN.children.index)
    for table, some in lists.items():
        children = {(media_id, place): child for media_id, item in last.items() for place, child in objects(item, some)}
        found = {(record["media_id"], record["position"]): record for record in records(rig, table)}
        assert children.keys() == found.keys()
        met = [child for item in seen for _, child in objects(item, some)]
        declared = set(core_children.c.keys()) if table == "media_children" else {*KEY, "position", "run_seq"}
        check_table(rig, table, declared, met, [(children[key], found[key]) for key in children])


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


KEYS = (
    "a", "A", "b", "aB", "a.b", "a'b", 'a"b', "0", "", "~1/", "é", "É", "order", "position", "seq", "counts", "found",
    "received_at", "likes", "like_count", "caption", "text", "children", "carousel", "tags", "data", "pk", "saves",
    "timestamp", "media_id", "g\0h",
)  # fmt: skip
TEXTS = (
    "", "x", "7", "1.50", "true", "null", "[1", "{", "é'\"", "2026-01-01T00:00:00Z", "2026-01-01 02:00:00.5+0200",
    "2026-02-30T00:00:00Z", "2026-01-01", "infinity", "99999999999999999999",
)  # fmt: skip
NUMBERS = (0, 1, -1, 7, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**70, 1.5, 0.0, -2.25, 1e30, 1e-9)

scalars = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS))
lists_of_scalars = st.one_of(
    st.lists(st.sampled_from([0, 1, None, 2**63 - 1]), max_size=2),
    st.lists(st.sampled_from(NUMBERS), max_size=2),
    st.lists(st.sampled_from(TEXTS), max_size=2),
    st.lists(st.booleans(), max_size=2),
    st.lists(scalars, max_size=3),
)


@st.composite
def stories(draw: st.DrawFn) -> list[Day]:
    keys = st.sampled_from(draw(st.lists(st.sampled_from(KEYS), min_size=2, max_size=5, unique=True)))
    # Few kinds of values, because a column with many kinds soon becomes text.
    favourites = st.sampled_from(draw(st.lists(st.one_of(scalars, lists_of_scalars), min_size=2, max_size=3)))
    leaves = st.one_of(favourites, favourites, scalars, lists_of_scalars)
    values = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.dictionaries(keys, inner, max_size=3),
            st.lists(st.dictionaries(keys, inner, max_size=3), max_size=3),
            st.lists(st.one_of(st.none(), inner), max_size=2),
        ),
        max_leaves=6,
    )
    items = st.builds(
        lambda number, fields: {"id": str(number), **fields},
        st.integers(0, 3),
        st.dictionaries(keys, values, max_size=4),
    )
    pages = st.lists(items, min_size=1, max_size=3)
    return draw(st.lists(st.lists(pages, min_size=1, max_size=2), min_size=1, max_size=3))


# The second item differs from the first one only in a key with a NUL character, within a column of mixed types.
@example(days=[[[{"id": "1", "a": []}, {"id": "1", "a": {"b": {"c\0": [True]}}}]]], cuts=[True])
@given(days=stories(), cuts=st.lists(st.booleans(), min_size=3, max_size=6))
# Each example takes seconds, and few examples find little: the cases below run every time.
@pytest.mark.long
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_columns_match_the_payloads_in_any_batches(opened_rig: Connection, days: list[Day], cuts: list[bool]) -> None:
    rig = emptied(opened_rig)
    land(rig, days, [False])
    check(rig, days)
    at_once = contents(rig)
    for some in ([True], cuts):
        rig = emptied(opened_rig)
        land(rig, days, some)
        assert contents(rig) == at_once


# Cases found by the test above, and others that must always run.


@pytest.mark.parametrize("cut", [False, True])
def test_a_difference_only_in_a_key_with_a_nul_character_is_not_a_change(opened_rig: Connection, cut: bool) -> None:  # noqa: FBT001
    days: list[Day] = [[[{"id": "0"}], [{"id": "0", "g\0h": False}]]]
    rig = emptied(opened_rig)
    land(rig, days, [cut])
    check(rig, days)
    assert [record["gh_payload"] for record in records(rig, "media")] == ['{"id":"0"}']
    assert records(rig, "media_superseded") == []


@pytest.mark.parametrize("value", [[0], [{"a": 1}]])
def test_a_list_in_place_of_a_mapped_text_is_a_change_and_has_a_column_of_its_own(
    opened_rig: Connection, value: list[object]
) -> None:
    rig = emptied(opened_rig)
    days: list[Day] = [[[{"id": "0", "caption": "x"}]], [[{"id": "0", "caption": value}]], [[{"id": "0"}]]]
    land(rig, days[:2], [True])
    check(rig, days[:2])
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


def test_changes_of_type_merge_to_the_same_rows_page_by_page(rig: Rig) -> None:
    pages = max(map(len, IN_TURN))
    items: list[Item] = [
        {"id": str(page), **{f"x{number}": values[page] for number, values in enumerate(IN_TURN) if page < len(values)}}
        for page in range(pages)
    ]
    found: list[dict[str, Any]] = []
    for cut in (True, False):
        rig = emptied(rig.connection)
        land(rig, [[[item] for item in items]], [cut])
        check(rig, [[items]])
        found.append(contents(rig))
    assert found[0] == found[1]


def test_fields_may_be_called_as_the_merge_calls_its_own(rig: Rig) -> None:
    names = ("position", "seq", "counts", "found", "received_at", "page", "scan_id", "payload")
    children = [{**dict.fromkeys(names, "y"), "media_id": "z", "surface": 1, "account_id": 2}]
    item: Item = {"id": "1", **dict.fromkeys(names, "x"), "tags": children}
    days: list[Day] = [[[item], [{**item, "id": "2", "caption": "a"}]], [[{**item, "caption": "b"}]]]
    land(rig, days, [True])
    check(rig, days)


def test_the_page_after_too_many_fields_merges_like_any_other(rig: Rig) -> None:
    many = {f"f{number}": number for number in range(MOST_FIELDS + 10)}
    rig.scan(POSTS, "p", 0, [{"id": "1", **many}])
    rig.scan(STORIES, "s", 1, [{"id": "1", "later": 1, "f0": "x", "f299": 1}])
    assert rig.row("SELECT f0, f298 FROM core.media WHERE surface = 'posts'") == ("0", 298)
    there = columns(rig, "media").keys() - set(core_media.c.keys())
    assert there == {f"f{number}" for number in range(MOST_COLUMNS - 1)}
    found = fields(rig, "media")
    assert len(found) == MOST_FIELDS + 1
    assert {key: found[AND_MORE][key] for key in ("column_name", "type", "name")} == {
        "column_name": None, "type": None, "name": "",
    }  # fmt: skip
    assert found["/f400"]["column_name"] is None
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
        check(rig, days)
        assert rig.rows("SELECT position, child_id, w FROM core.media_children ORDER BY 1") == [
            (0, "a", None), (1, "b", "x"), (2, "c", "1"),
        ]  # fmt: skip
