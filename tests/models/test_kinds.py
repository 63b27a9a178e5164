import operator
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.kinds import Json, Kind, WideNumber, column_type, kinds_of_list, type_changed_at, values_of

INSTANT = "TIMESTAMP WITH TIME ZONE"
T0 = datetime(2026, 3, 1, tzinfo=UTC)

# Which types hold all that another holds. None is where no column is needed yet.
WIDER = {
    "BOOLEAN": {"VARCHAR"},
    "BIGINT": {"DOUBLE", "VARCHAR"},
    "DOUBLE": {"VARCHAR"},
    INSTANT: {"VARCHAR"},
    "VARCHAR": set[str](),
}


def is_as_wide(wide: str | None, narrow: str | None) -> bool:
    if narrow is None or wide == narrow or wide == "VARCHAR":
        return True
    if wide is None:
        return False
    if narrow.endswith("[]"):
        return wide.endswith("[]") and is_as_wide(wide[:-2], narrow[:-2])
    return wide in WIDER[narrow]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((), None),
        ((Kind.NULL,), None),
        ((Kind.OBJECT,), None),
        ((Kind.EMPTY_LIST,), None),
        ((Kind.NULL, Kind.EMPTY_LIST), None),
        ((Kind.ROWS,), None),
        ((Kind.ROWS, Kind.EMPTY_LIST), None),
        ((Kind.BOOLEAN,), "BOOLEAN"),
        ((Kind.INTEGER,), "BIGINT"),
        ((Kind.WIDE,), "VARCHAR"),
        ((Kind.NUMBER,), "DOUBLE"),
        ((Kind.TEXT,), "VARCHAR"),
        ((Kind.INSTANT,), INSTANT),
        ((Kind.INTEGER, Kind.NUMBER), "DOUBLE"),
        ((Kind.INTEGER, Kind.WIDE), "VARCHAR"),
        ((Kind.LONG,), "BIGINT"),
        ((Kind.INTEGER, Kind.LONG), "BIGINT"),
        ((Kind.LONG, Kind.NUMBER), "VARCHAR"),
        ((Kind.INTEGERS, Kind.LONGS), "BIGINT[]"),
        ((Kind.LONGS, Kind.NUMBERS), "VARCHAR[]"),
        ((Kind.NUMBER, Kind.WIDE), "VARCHAR"),
        ((Kind.INTEGER, Kind.TEXT), "VARCHAR"),
        ((Kind.BOOLEAN, Kind.INTEGER), "VARCHAR"),
        ((Kind.INSTANT, Kind.TEXT), "VARCHAR"),
        ((Kind.INTEGER, Kind.OBJECT), "VARCHAR"),
        ((Kind.INTEGER, Kind.INTEGERS), "VARCHAR"),
        ((Kind.INTEGER, Kind.EMPTY_LIST), "VARCHAR"),
        ((Kind.OBJECT, Kind.EMPTY_LIST), "VARCHAR"),
        ((Kind.OBJECT, Kind.ROWS), "VARCHAR"),
        ((Kind.INTEGERS, Kind.ROWS), "VARCHAR"),
        ((Kind.MIXED,), "VARCHAR"),
        ((Kind.BOOLEANS,), "BOOLEAN[]"),
        ((Kind.INTEGERS, Kind.EMPTY_LIST), "BIGINT[]"),
        ((Kind.INTEGERS, Kind.NUMBERS), "DOUBLE[]"),
        ((Kind.INTEGERS, Kind.TEXTS), "VARCHAR[]"),
        ((Kind.WIDES, Kind.NUMBERS), "VARCHAR[]"),
        ((Kind.INTEGER, Kind.SHADOWED, Kind.UNREADABLE, Kind.NULL), "BIGINT"),
        ((Kind.SHADOWED,), None),
    ],
)
def test_the_type_follows_from_the_kinds(kinds: Collection[Kind], expected: str | None) -> None:
    assert column_type(kinds) == expected
    assert column_type(set(kinds)) == column_type(tuple(reversed(tuple(kinds)))) == expected


@given(st.sets(st.sampled_from(Kind)), st.sampled_from(Kind))
def test_another_kind_only_widens_the_type(kinds: set[Kind], one: Kind) -> None:
    before, after = column_type(kinds), column_type(kinds | {one})
    # The elements of a list of objects move to a table of their own; before, there was no column for them.
    assert is_as_wide(after, before)


@given(st.permutations(list(Kind)))
def test_the_order_of_kinds_tells_nothing(kinds: list[Kind]) -> None:
    for count in range(len(kinds)):
        assert column_type(kinds[:count]) == column_type(sorted(kinds[:count]))


def hours(**kinds: int) -> dict[Kind, datetime]:
    return {Kind[name]: T0 + timedelta(hours=hour) for name, hour in kinds.items()}


@pytest.mark.parametrize(
    ("kinds", "hour"),
    [
        ({}, None),
        (hours(NULL=1), None),
        (hours(NULL=1, INTEGER=2), None),
        (hours(INTEGER=1, NULL=2), None),
        (hours(INTEGER=1, NUMBER=1), None),
        (hours(INTEGER=1, NUMBER=2), 2),
        (hours(INTEGER=2, TEXT=1), 2),
        (hours(INTEGER=1, NUMBER=2, TEXT=3, BOOLEAN=4), 4),
        (hours(TEXT=1, INSTANT=2), None),
        (hours(INSTANT=1, TEXT=2), 2),
        (hours(TEXT=1, OBJECT=2), 2),
        (hours(INTEGERS=1, EMPTY_LIST=2), None),
        (hours(EMPTY_LIST=1, INTEGERS=2), None),
        (hours(INTEGERS=1, TEXTS=2), 2),
        (hours(INTEGER=1, UNREADABLE=2), 2),
        (hours(INTEGER=1, SHADOWED=2), None),
        (hours(OBJECT=1, ROWS=2), 2),
    ],
)
def test_the_last_change_of_type_is_when_values_of_another_type_were_met(
    kinds: dict[Kind, datetime], hour: int | None
) -> None:
    assert type_changed_at(kinds) == (None if hour is None else T0 + timedelta(hours=hour))


@given(st.dictionaries(st.sampled_from(Kind), st.integers(0, 3), max_size=6))
def test_a_change_of_type_has_an_instant(kinds: dict[Kind, int]) -> None:
    met = {kind: T0 + timedelta(hours=hour) for kind, hour in kinds.items()}
    changed = type_changed_at(met)
    assert changed is None or changed in met.values()
    types = [column_type([kind for kind, at in met.items() if at <= instant]) for instant in sorted(set(met.values()))]
    there = [kind for kind in types if kind is not None]
    if any(map(operator.ne, there, there[1:])):
        assert changed is not None


def met(item: dict[str, Json], *, in_element: bool = False) -> dict[str, set[Kind]]:
    return {".".join(one.keys): set(one.kinds) for one in values_of(item, in_element=in_element)}


def test_values_are_found_at_every_path_in_the_order_of_the_text() -> None:
    item: dict[str, Json] = {
        "z": 2**53,
        "o": {"n": None, "p": {"q": "text"}, "e": {}},
        "b": True,
        "d": 1.5,
        "l": 2**53 + 1,
        "h": 2**63,
        "i": -(2**63),
        "w": WideNumber("1e999"),
        "t": "2026-01-01T00:00:00Z",
        "s": "2026-13-01T00:00:00Z",
    }
    assert list(met(item).items()) == [
        ("z", {Kind.INTEGER}),
        ("o", {Kind.OBJECT}),
        ("o.n", {Kind.NULL}),
        ("o.p", {Kind.OBJECT}),
        ("o.p.q", {Kind.TEXT}),
        ("o.e", {Kind.OBJECT}),
        ("b", {Kind.BOOLEAN}),
        ("d", {Kind.NUMBER}),
        ("l", {Kind.LONG}),
        ("h", {Kind.WIDE}),
        ("i", {Kind.LONG}),
        ("w", {Kind.WIDE}),
        ("t", {Kind.INSTANT}),
        ("s", {Kind.TEXT}),
    ]


@pytest.mark.parametrize(
    ("elements", "kinds"),
    [
        ([], {Kind.EMPTY_LIST}),
        ([None, None], {Kind.EMPTY_LIST}),
        ([True, None], {Kind.BOOLEANS}),
        ([1, -1], {Kind.INTEGERS}),
        ([2**53 + 1], {Kind.LONGS}),
        ([2**64], {Kind.WIDES}),
        ([1.5], {Kind.NUMBERS}),
        ([1, 1.5], {Kind.INTEGERS, Kind.NUMBERS}),
        ([2**53 + 1, 1.5], {Kind.LONGS, Kind.NUMBERS}),
        (["a", "2026-01-01T00:00:00Z"], {Kind.TEXTS}),
        ([1, "a"], {Kind.MIXED}),
        ([True, 1], {Kind.MIXED}),
        ([[1]], {Kind.MIXED}),
        ([{"a": 1}, None], {Kind.ROWS}),
        ([{"a": 1}, 1], {Kind.MIXED}),
        ([{}], {Kind.ROWS}),
    ],
)
def test_a_list_is_of_what_is_in_it(elements: list[Json], kinds: set[Kind]) -> None:
    assert set(kinds_of_list(elements)) == kinds
    assert met({"l": elements}) == {"l": kinds}
    in_element = {Kind.MIXED if kind is Kind.ROWS else kind for kind in kinds}
    assert met({"l": elements}, in_element=True) == {"l": in_element}


def test_a_key_that_no_query_can_name_is_left_out() -> None:
    assert met({"g\0h": {"a": 1}, "b": 1}) == {"b": {Kind.INTEGER}}


def test_the_deepest_objects_stay_json() -> None:
    value: Json = 1
    for _ in range(12):
        value = {"k": value}
    assert isinstance(value, dict)
    kinds = list(met(value).items())
    assert kinds[-1] == (".".join("k" * 8), {Kind.MIXED})
    assert [kind for _, kind in kinds[:-1]] == [{Kind.OBJECT}] * 7
