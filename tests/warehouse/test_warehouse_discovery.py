import json
import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from models.fields import AND_MORE, MOST_COLUMNS, MOST_FIELDS
from models.mapping_built_in import BUILT_IN
from models.pointer import to_keys, to_pointer
from models.tables import core_children, core_media
from tests.warehouse.house import POSTS, STORIES, T0, House, Item, Row, Walk, at, emptied

Night = list[list[Item]]
Path = tuple[str, ...]

CANDIDATES = {path for column in BUILT_IN.columns for path in column.paths} | set(BUILT_IN.media_id)
CHILD_CANDIDATES = {path for column in BUILT_IN.child_columns for path in column.paths}
KEY = ("account_id", "surface", "media_id")


# What the columns must say, told once more in plain Python, which knows JSON and none of our code.


def is_instant(value: object) -> bool:
    if not isinstance(value, str) or not re.fullmatch(
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)", value, re.ASCII
    ):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def simple(value: object) -> str:
    """The kind of a value that is neither list nor object."""
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if -(2**63) <= value < 2**63 else "VARCHAR"
    if isinstance(value, float):
        return "DOUBLE"
    return "TIMESTAMP WITH TIME ZONE" if is_instant(value) else "VARCHAR"


def common(types: set[str]) -> str:
    if len(types) == 1:
        return next(iter(types))
    return "DOUBLE" if types == {"BIGINT", "DOUBLE"} else "VARCHAR"


def sort_of(value: object, *, deep: bool, in_child: bool) -> str:
    if isinstance(value, dict):
        return "mixed" if deep and value else "object"
    if not isinstance(value, list):
        return "simple"
    there = [one for one in value if one is not None]
    if any(isinstance(one, dict) and one for one in there) and all(isinstance(one, dict) for one in there):
        return "mixed" if in_child else "rows"
    if not there:
        return "empty"
    sorts = {"text" if isinstance(one, str) else "number" if type(one) in (int, float) else type(one) for one in there}
    return "list" if len(sorts) == 1 and not sorts & {list, dict} else "mixed"


def type_of(values: Sequence[object], *, deep: bool = False, in_child: bool = False) -> str | None:
    """The type of the column that holds these values, none of which is null; None where it needs none."""
    sorts = {sort_of(value, deep=deep, in_child=in_child) for value in values}
    if "empty" in sorts and sorts & {"simple", "object", "mixed"} and "rows" not in sorts:
        sorts.add("list")
    sorts.discard("empty")
    if "mixed" in sorts or len(sorts) > 1:
        return "VARCHAR"
    if sorts == {"simple"}:
        return common({simple(value) for value in values})
    if sorts == {"list"}:
        elements = [one for value in values if isinstance(value, list) for one in value if one is not None]
        return common({"VARCHAR" if isinstance(one, str) else simple(one) for one in elements}) + "[]"
    return None


def says(kind: str, found: object, value: object) -> bool:
    """Whether a column of this type says of a value what the API said."""
    if value is None:
        return found is None
    if kind.endswith("[]"):
        assert isinstance(value, list)
        return (
            isinstance(found, list)
            and len(found) == len(value)
            and all(says(kind[:-2], *pair) for pair in zip(found, value, strict=True))
        )
    if kind == "VARCHAR":
        if isinstance(value, str):
            return found == value
        assert isinstance(found, str)
        return type(json.loads(found)) is type(value) and bool(json.loads(found) == value)
    if kind == "DOUBLE":
        assert isinstance(value, int | float)
        return isinstance(found, float) and found == float(value)
    if kind == "TIMESTAMP WITH TIME ZONE":
        assert isinstance(value, str)
        return found == datetime.fromisoformat(value)
    return type(found) is type(value) and found == value


def under(item: object, keys: Path) -> Any:  # noqa: ANN401 - JSON is anything
    for key in keys:
        item = item.get(key) if isinstance(item, dict) else None
    return item


def leads_into_a_list(item: object, keys: Path) -> bool:
    return any(isinstance(under(item, keys[:depth]), list) for depth in range(len(keys)))


def paths(item: Item, above: Path = ()) -> Iterator[Path]:
    for key, value in item.items():
        keys = (*above, key)
        if "\0" not in key:
            yield keys
            if isinstance(value, dict) and len(keys) < 8:
                yield from paths(value, keys)


def objects(item: Item, lists: Sequence[str]) -> Iterator[tuple[int, Item]]:
    """What is in the lists of objects at these paths, one list after another, each with its place."""
    every = (under(item, to_keys(path)) for path in lists)
    elements = [
        element
        for one in every
        if isinstance(one, list) and all(element is None or isinstance(element, dict) for element in one)
        for element in one
    ]
    return ((place, element) for place, element in enumerate(elements) if element is not None)


# What a warehouse holds.


def columns(house: House, table: str) -> dict[str, str]:
    query = "SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name = 'core' AND table_name = "
    return {str(name): str(kind) for name, kind in house.rows(f"{query}'{table}'")}


def child_tables(house: House) -> list[str]:
    found = house.rows("SELECT DISTINCT child_table FROM core.fields WHERE child_table IS NOT NULL")
    return ["media_children", *(str(name) for (name,) in sorted(found))]


def records(house: House, table: str) -> list[dict[str, Any]]:
    names = sorted(columns(house, table))
    listed = ", ".join("payload::VARCHAR" if name == "payload" else f'"{name}"' for name in names)
    order = "account_id, surface, media_id, " + ("first_seen_at" if table == "media" else "position")
    rows = house.rows(f"SELECT {listed} FROM core.{table} ORDER BY {order}")
    return [dict(zip(names, row, strict=True)) for row in rows]


def contents(house: House) -> dict[str, Any]:
    tables = ["media", *child_tables(house)]
    return {
        "fields": house.rows("SELECT * FROM core.fields ORDER BY resource, ordinal"),
        "superseded": house.rows("SELECT * FROM core.media_superseded ORDER BY ALL"),
        "metrics": house.rows("SELECT * FROM core.media_metrics ORDER BY ALL"),
        **{table: (columns(house, table), records(house, table)) for table in tables},
    }


def fields(house: House, resource: str) -> dict[str, dict[str, Any]]:
    names = ("path", "column_name", "type", "name", "child_table", "ordinal", "kinds")
    rows = house.rows(f"SELECT {', '.join(names)} FROM core.fields WHERE resource = '{resource}'")
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


def check_table(
    house: House, table: str, own: set[str], seen: Sequence[Item], rows: Sequence[tuple[Item, dict[str, Any]]]
) -> None:
    """Compare each column of a table with all items (or children) ever seen, and those that are stored."""
    there, known = columns(house, table), fields(house, table)
    met = {keys for item in seen for keys in paths(item)}
    assert {to_keys(path) for path in known} == met
    candidates = CANDIDATES if table == "media" else CHILD_CANDIDATES if table == "media_children" else set()
    expected: dict[str, str] = {}
    for path, row in known.items():
        keys = to_keys(path)
        values = [value for item in seen if (value := under(item, keys)) is not None]
        kind = type_of(values, deep=len(keys) >= 8, in_child=table != "media")
        if path in candidates and row["name"] not in there:
            continue
        if kind is not None:
            expected[row["name"]] = kind
        if row["column_name"] is not None and row["type"] != "ROWS" and path not in candidates:
            assert (row["column_name"], row["type"]) == (row["name"], kind)
        for item, record in rows:
            if kind is not None and not leads_into_a_list(item, keys):
                assert says(kind, record[row["name"]], under(item, keys)), (path, kind, record[row["name"]], item)
    assert {name: kind for name, kind in there.items() if name not in own} == expected


def check(house: House, nights: Sequence[Night]) -> None:
    """Compare every discovered column of every row with the payload, by itself."""
    seen = [item for night in nights for page in night for item in page]
    last = {str(item["id"]): item for item in seen}
    media = records(house, "media")
    assert {record["media_id"]: json.loads(record["payload"]) for record in media} == last
    rows = [(last[record["media_id"]], record) for record in media]
    check_table(house, "media", {column.name for column in core_media.c}, seen, rows)
    lists: dict[str, list[str]] = {"media_children": []}
    for path, row in fields(house, "media").items():
        if any(sort_of(under(item, to_keys(path)), deep=False, in_child=False) == "rows" for item in seen):
            table = "media_children" if path in BUILT_IN.children else row["child_table"]
            lists.setdefault(table, []).append(path)
    assert sorted(lists) == sorted(child_tables(house))
    lists["media_children"].sort(key=BUILT_IN.children.index)
    for table, some in lists.items():
        children = {(media_id, place): child for media_id, item in last.items() for place, child in objects(item, some)}
        found = {(record["media_id"], record["position"]): record for record in records(house, table)}
        assert children.keys() == found.keys()
        met = [child for item in seen for _, child in objects(item, some)]
        declared = {column.name for column in core_children.c} if table == "media_children" else {*KEY, "position"}
        check_table(house, table, declared, met, [(children[key], found[key]) for key in children])


def land(house: House, nights: Sequence[Night], cuts: Sequence[bool]) -> None:
    """Land a walk a night, a page an hour, and fold after each page that is cut."""
    page = 0
    for number, night in enumerate(nights):
        walk = Walk(POSTS, f"night {number}", at(24 * number))
        for place, items in enumerate(night):
            house.land(walk.page(items, at(24 * number + place), last=place == len(night) - 1))
            if cuts[page % len(cuts)]:
                house.fold()
            page += 1
    house.fold()


KEYS = (
    "a", "A", "b", "aB", "a.b", "a'b", 'a"b', "0", "", "~1/", "é", "É", "order", "position", "seq", "counts", "found",
    "received_at", "likes", "like_count", "caption", "text", "children", "carousel", "tags", "data", "pk", "saves",
    "timestamp", "media_id", "g\0h",
)  # fmt: skip
TEXTS = (
    "", "x", "7", "1.50", "true", "null", "[1]", "{", "é'\"", "2026-01-01T00:00:00Z", "2026-01-01 02:00:00.5+0200",
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
def stories(draw: st.DrawFn) -> list[Night]:
    keys = st.sampled_from(draw(st.lists(st.sampled_from(KEYS), min_size=2, max_size=5, unique=True)))
    # The same few kinds of value again and again: what all differs soon is but text.
    favourites = st.sampled_from(draw(st.lists(scalars, min_size=2, max_size=3)))
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


@given(nights=stories(), cuts=st.lists(st.booleans(), min_size=3, max_size=6))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_columns_say_what_payloads_say_however_pages_are_cut_into_folds(
    open_house: Connection, nights: list[Night], cuts: list[bool]
) -> None:
    house = emptied(open_house)
    land(house, nights, [False])
    check(house, nights)
    at_once = contents(house)
    for some in ([True], cuts):
        house = emptied(open_house)
        land(house, nights, some)
        assert contents(house) == at_once
