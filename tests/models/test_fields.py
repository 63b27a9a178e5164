"""Which fields get which columns, whatever they are called and however many there are."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from models.fields import Field, FieldType, register

AT = datetime(2026, 1, 1, tzinfo=UTC)


def seen(path: str, *kinds: FieldType, resource: str = "media", is_count: bool = False, hours: int = 0) -> Field:
    return Field(resource, path, frozenset(kinds), is_count, AT + timedelta(hours=hours))


def test_a_field_has_one_column_which_only_widens() -> None:
    first = register(
        {}, [seen("/Foo", FieldType.INTEGER), seen("/own", FieldType.TEXT), seen("/foo", FieldType.TEXT)], {"own"}
    )
    assert [field.column_name for field in first.values()] == ["foo", "own_2", "foo_2"]
    later = register(
        first, [seen("/Foo", FieldType.NUMBER, is_count=True, hours=1), seen("/own", FieldType.TEXT)], {"own"}
    )
    kinds = frozenset({FieldType.INTEGER, FieldType.NUMBER})
    changed_at = AT + timedelta(hours=1)
    expected = replace(first["media", "/Foo"], kinds=kinds, is_count=True, last_type_change_at=changed_at)
    assert later == {**first, ("media", "/Foo"): expected}
    assert (first["media", "/Foo"].type, expected.type) == ("BIGINT", "DOUBLE")


def test_the_first_fields_have_columns_and_the_last_are_not_registered() -> None:
    paths = [f"/f{number}" for number in range(700)]
    found = register({}, [seen(path, FieldType.TEXT) for path in paths], set())
    assert [field.path for field in found.values()] == paths[:600]
    assert [field.path for field in found.values() if field.column_name] == paths[:300]
    assert register(found, [seen("/tags", FieldType.TEXT, resource="media_tags")], set())[
        "media_tags", "/tags"
    ].column_name


def test_a_field_outside_of_items_or_with_a_nul_has_no_column() -> None:
    found = register({}, [seen("/total", resource="media_page"), seen("/a\0", FieldType.TEXT)], set())
    assert [field.column_name for field in found.values()] == [None, None]
