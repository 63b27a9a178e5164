from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.schema.fields import (
    AND_MORE,
    MEDIA,
    MOST_FIELDS,
    Field,
    FieldObservation,
    OwnNames,
    Registry,
    register,
)
from models.schema.json_types import JsonType

T0 = datetime(2026, 3, 1, tzinfo=UTC)
TAGS = "media_tags"
OWN = OwnNames({MEDIA: {"media_id", "caption"}, "media_children": {"child_id"}}, {"media", "media_tags"}, {"/children"})


def at(hour: int) -> datetime:
    return T0 + timedelta(hours=hour)


def met(path: str, json_type: JsonType = JsonType.TEXT, hour: int = 0, *, resource: str = MEDIA) -> FieldObservation:
    return FieldObservation(resource, path, json_type, at(hour))


def only(*observations: FieldObservation) -> Field:
    (field,) = register({}, observations, OWN).values()
    return field


def names(registry: Registry, resource: str = MEDIA) -> dict[str, str]:
    return {path: field.name for (where, path), field in registry.items() if where == resource}


observations = st.lists(
    st.builds(
        FieldObservation,
        st.sampled_from([MEDIA, "media_children", TAGS]),
        st.sampled_from(["/a", "/A", "/a_2", "/order", "/caption", "/tags", "/tags/data", "/children", "/position"]),
        st.sampled_from(JsonType),
        st.integers(0, 4).map(at),
    ),
    max_size=30,
)


@given(observations, st.lists(st.integers(1, 8)))
def test_the_registry_is_the_same_in_any_batches(seen: list[FieldObservation], lengths: list[int]) -> None:
    registry: Registry = {}
    rest = seen
    for length in lengths:
        registry, rest = register(registry, rest[:length], OWN), rest[length:]
    assert register(registry, rest, OWN) == register({}, seen, OWN)


@given(observations)
def test_names_and_tables_are_unique_and_not_those_of_others(seen: list[FieldObservation]) -> None:
    registry = register({}, seen, OWN)
    for resource, own in ((MEDIA, {"media_id", "caption"}), (TAGS, {"account_id", "media_id", "position"})):
        found = list(names(registry, resource).values())
        assert len(set(found)) == len(found)
        assert own.isdisjoint(found)
        ordinals = [field.ordinal for field in registry.values() if field.resource == resource]
        assert ordinals == list(range(len(ordinals)))
    tables = [field.table for field in registry.values() if field.table is not None]
    assert len({*tables, *OWN.tables}) == len(tables) + len(OWN.tables)


@given(observations)
def test_registering_the_same_fields_again_changes_nothing(seen: list[FieldObservation]) -> None:
    registry = register({}, seen, OWN)
    assert register(registry, seen, OWN) == registry


def test_a_time_after_other_text_adds_no_type() -> None:
    text, instant = (JsonType.TEXT, 1), (JsonType.INSTANT, 2)
    for some in ([text, instant], [instant, text]):
        assert only(*(met("/a", *one) for one in some)).json_types == {JsonType.TEXT: at(1)}
    before = only(met("/a", JsonType.INSTANT, 1), met("/a", JsonType.TEXT, 2))
    assert before.json_types == {JsonType.INSTANT: at(1), JsonType.TEXT: at(2)}
    assert only(met("/a", JsonType.INSTANT), met("/a", JsonType.TEXT)).json_types == {JsonType.TEXT: at(0)}


def test_conflicting_names_get_a_number_in_order_of_discovery() -> None:
    registry = register({}, [met(path) for path in ("/fullName", "/full_name", "/caption", "/FULL_NAME")], OWN)
    assert names(registry) == {
        "/fullName": "full_name", "/full_name": "full_name_2", "/caption": "caption_2", "/FULL_NAME": "full_name_3",
    }  # fmt: skip


def test_a_list_of_objects_gets_a_table_once_and_its_name_is_not_taken() -> None:
    registry = register(
        {}, [met("/tags", JsonType.TEXT), met("/tags", JsonType.ROWS), met("/tags/data", JsonType.ROWS)], OWN
    )
    assert [field.table for field in registry.values()] == ["media_tags_2", "media_tags_3"]
    assert register(registry, [met("/tags", JsonType.ROWS, 5), met("/tags", JsonType.NULL)], OWN)[
        MEDIA, "/tags"
    ].table == ("media_tags_2")


def many(count: int, json_type: JsonType = JsonType.INTEGER, *, resource: str = MEDIA) -> list[FieldObservation]:
    return [met(f"/f{number}", json_type, number, resource=resource) for number in range(count)]


def test_each_resource_has_its_own_limit() -> None:
    registry = register({}, [*many(MOST_FIELDS + 1), *many(3, resource=TAGS)], OWN)
    assert [field.ordinal for field in registry.values() if field.resource == TAGS] == [0, 1, 2]
    assert (TAGS, AND_MORE) not in registry


@pytest.mark.parametrize("cut", [1, MOST_FIELDS, MOST_FIELDS + 1])
def test_the_limit_is_the_same_in_any_batches(cut: int) -> None:
    seen = many(MOST_FIELDS + 20)
    assert register(register({}, seen[:cut], OWN), seen[cut:], OWN) == register({}, seen, OWN)
