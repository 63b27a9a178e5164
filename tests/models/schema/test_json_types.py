from collections.abc import Collection
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.schema.json_types import (
    Json,
    JsonType,
    column_type,
    json_types_of_list,
    type_changed_at,
    values_of,
)

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
    ("json_types", "expected"),
    [
        ((), None),
        ((JsonType.NULL,), None),
        ((JsonType.OBJECT,), None),
        ((JsonType.ROWS,), None),
        ((JsonType.BOOLEAN,), "BOOLEAN"),
        ((JsonType.INTEGER,), "BIGINT"),
        ((JsonType.WIDE,), "VARCHAR"),
        ((JsonType.NUMBER,), "DOUBLE"),
        ((JsonType.TEXT,), "VARCHAR"),
        ((JsonType.INSTANT,), INSTANT),
        ((JsonType.INTEGER, JsonType.NUMBER), "DOUBLE"),
        ((JsonType.LONG,), "BIGINT"),
        ((JsonType.INTEGER, JsonType.LONG), "BIGINT"),
        ((JsonType.LONG, JsonType.NUMBER), "VARCHAR"),
        ((JsonType.INTEGER, JsonType.TEXT), "VARCHAR"),
        ((JsonType.BOOLEAN, JsonType.INTEGER), "VARCHAR"),
        ((JsonType.INSTANT, JsonType.TEXT), "VARCHAR"),
        ((JsonType.INTEGER, JsonType.INTEGERS), "VARCHAR"),
        ((JsonType.INTEGER, JsonType.EMPTY_LIST), "VARCHAR"),
        ((JsonType.OBJECT, JsonType.ROWS), "VARCHAR"),
        ((JsonType.MIXED,), "VARCHAR"),
        ((JsonType.BOOLEANS,), "BOOLEAN[]"),
        ((JsonType.INTEGERS, JsonType.EMPTY_LIST), "BIGINT[]"),
        ((JsonType.INTEGERS, JsonType.NUMBERS), "DOUBLE[]"),
        ((JsonType.INTEGER, JsonType.SHADOWED, JsonType.UNREADABLE, JsonType.NULL), "BIGINT"),
    ],
)
def test_the_type_follows_from_the_kinds(json_types: Collection[JsonType], expected: str | None) -> None:
    assert column_type(json_types) == expected
    assert column_type(set(json_types)) == column_type(tuple(reversed(tuple(json_types)))) == expected


@given(st.sets(st.sampled_from(JsonType)), st.sampled_from(JsonType))
def test_another_kind_only_widens_the_type(json_types: set[JsonType], one: JsonType) -> None:
    before, after = column_type(json_types), column_type(json_types | {one})
    # The elements of a list of objects move to a table of their own; before, there was no column for them.
    assert is_as_wide(after, before)


def hours(**json_types: int) -> dict[JsonType, datetime]:
    return {JsonType[name]: T0 + timedelta(hours=hour) for name, hour in json_types.items()}


@pytest.mark.parametrize(
    ("json_types", "hour"),
    [
        ({}, None),
        (hours(NULL=1, INTEGER=2), None),
        (hours(INTEGER=1, NUMBER=1), None),
        (hours(INTEGER=1, NUMBER=2), 2),
        (hours(INTEGER=1, NUMBER=2, TEXT=3, BOOLEAN=4), 4),
        (hours(TEXT=1, INSTANT=2), None),
        (hours(INSTANT=1, TEXT=2), 2),
        (hours(EMPTY_LIST=1, INTEGERS=2), None),
        (hours(INTEGER=1, UNREADABLE=2), 2),
        (hours(INTEGER=1, SHADOWED=2), None),
    ],
)
def test_the_last_change_of_type_is_when_another_type_was_first_found(
    json_types: dict[JsonType, datetime], hour: int | None
) -> None:
    assert type_changed_at(json_types) == (None if hour is None else T0 + timedelta(hours=hour))


def met(item: dict[str, Json], *, in_element: bool = False) -> dict[str, set[JsonType]]:
    return {".".join(one.keys): set(one.json_types) for one in values_of(item, in_element=in_element)}


@pytest.mark.parametrize(
    ("elements", "json_types"),
    [
        ([], {JsonType.EMPTY_LIST}),
        ([True, None], {JsonType.BOOLEANS}),
        ([2**53 + 1], {JsonType.LONGS}),
        ([2**64], {JsonType.WIDES}),
        ([1.5], {JsonType.NUMBERS}),
        ([1, 1.5], {JsonType.INTEGERS, JsonType.NUMBERS}),
        (["a", "2026-01-01T00:00:00Z"], {JsonType.TEXTS}),
        ([1, "a"], {JsonType.MIXED}),
        ([[1]], {JsonType.MIXED}),
        ([{"a": 1}, None], {JsonType.ROWS}),
        ([{"a": 1}, 1], {JsonType.MIXED}),
    ],
)
def test_the_types_of_a_list_follow_from_its_elements(elements: list[Json], json_types: set[JsonType]) -> None:
    assert set(json_types_of_list(elements)) == json_types
    assert met({"l": elements}) == {"l": json_types}
    in_element = {JsonType.MIXED if json_type is JsonType.ROWS else json_type for json_type in json_types}
    assert met({"l": elements}, in_element=True) == {"l": in_element}


def test_the_deepest_objects_stay_json() -> None:
    value: Json = 1
    for _ in range(12):
        value = {"k": value}
    assert isinstance(value, dict)
    json_types = list(met(value).items())
    assert json_types[-1] == (".".join("k" * 8), {JsonType.MIXED})
    assert [json_type for _, json_type in json_types[:-1]] == [{JsonType.OBJECT}] * 7
