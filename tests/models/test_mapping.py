"""Paths, and which fields get which columns, whatever they are called and however many there are."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.mapping import (
    KEYWORDS,
    Field,
    FieldType,
    Keys,
    column_type,
    register,
    safe_name,
    table_name,
    to_keys,
    to_pointer,
)


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as db:
        yield db


# Keys that look like a path, or almost like each other.
KEYS = (
    "x", "", " ", "0", "*", "$.x", "/", "/x", "~", "~1", "~01", "#", "[0]", "a.b", "a/b", '"', "\\",
    "\u00e9", "e\u0301",
)  # fmt: skip


def test_pointers_round_trip_and_lead_duckdb_to_the_value(db: duckdb.DuckDBPyConnection) -> None:
    for path in (*zip(KEYS, strict=True), *permutations(KEYS, 2)):
        asked = to_pointer(path)
        assert to_keys(asked) == path
        document: object = "here"
        for key in reversed(path):
            document = {"other": 1, key: document}
        found = db.execute("SELECT json_extract_string(?::JSON, ?)", [json.dumps(document), asked]).fetchall()
        assert found == [("here",)]


def test_a_person_writes_a_path_in_either_way() -> None:
    assert to_keys("$.owner.username") == to_keys("/owner/username") == ("owner", "username")
    assert to_keys("/a~1b/c~0d") == ("a/b", "c~d")


@pytest.mark.parametrize("path", ["", "owner", "$", "$.", "$..a", "$.a.", "$.a[0]", "$.*", '$."a"', "$a"])
def test_anything_else_is_not_a_path(path: str) -> None:
    with pytest.raises(ValueError, match=r"is not a path; use \$\.owner\.username"):
        to_keys(path)


AT = datetime(2026, 1, 1, tzinfo=UTC)


def is_refused(db: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Whether DuckDB refuses this name without quotes."""
    try:
        db.execute(f"CREATE OR REPLACE TABLE t ({name} INTEGER)")
        db.execute(f"SELECT {name} + 1, max(t.{name}) FROM t WHERE {name} > 1 GROUP BY {name} ORDER BY {name}")
    except duckdb.Error:
        return True
    return False


def test_the_names_of_fields_are_none_of_the_words_that_duckdb_refuses(db: duckdb.DuckDBPyConnection) -> None:
    words = {word for (word,) in db.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()}
    assert {word for word in words if is_refused(db, word)} == KEYWORDS - {"rowid"}
    names = {safe_name((key,)) for word in KEYWORDS for key in (word, word.upper())}
    assert not [name for name in names if is_refused(db, name)]
    assert not names & {*words, "rowid"}


HOSTILE = (
    "", "_", "__", " ", ".", "1", "2026-01-01", "9lives", "½", "²", "١٢", "a'b", 'a"b', "a;DROP TABLE t", "--", "/*",
    "$1", "?", "%s", "{0}", "\n", "\u00a0", "\u200b", "\ufeff", "é", "É", "ß", "ẞ", "İ", "\u0131", "\u017f", "Å", "ﬁ",
    "日本", "🍲", "ᾳ", "\u13a0", "x" * 500, "ß" * 40, "日" * 70, "ROWID", "\ud800", "e\u0301",
)  # fmt: skip

hostile_keys = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=70)), min_size=1, max_size=3).map(tuple)


@given(keys=hostile_keys)
def test_the_column_name_of_any_field_needs_no_quotes(db: duckdb.DuckDBPyConnection, keys: Keys) -> None:
    name, table = safe_name(keys), table_name("media", keys)
    assert not is_refused(db, name)
    db.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT 1 AS {name}")
    assert db.execute(f"SELECT {table}.{name} FROM {table}").fetchall() == [(1,)]
    assert (name, table) == (name.casefold(), table.casefold())
    # Room for a number, within the 63 characters of PostgreSQL.
    assert 0 < len(name) <= 59
    assert len(table) <= 59


def test_names_are_snake_case_and_a_child_table_is_called_after_its_list() -> None:
    for keys, name, table in (
        (("caption",), "caption", "media_caption"),
        (("mediaType",), "media_type", "media_media_type"),
        (("HTMLText",), "html_text", "media_html_text"),
        (("owner", "fullName"), "owner__full_name", "media_owner__full_name"),
        (("a.b", "c d"), "a_b__c_d", "media_a_b__c_d"),
        (("2026",), "_2026", "media_2026"),
        (("🍲",), "field", "media_field"),
        (("order",), "order_", "media_order"),
        (("by", "order"), "by__order", "media_by__order"),
        (("tags", "data"), "tags__data", "media_tags"),
        (("data",), "data", "media_data"),
    ):
        assert (safe_name(keys), table_name("media", keys)) == (name, table)


def test_long_names_are_cut_and_stay_distinct() -> None:
    names = [safe_name(("a" * 70, last)) for last in "ab"]
    assert names[0] != names[1]
    assert [name.rpartition("_")[0] for name in names] == ["a" * 50] * 2
    assert (safe_name(("a" * 59,)), table_name("media", ("x" * 53,))) == ("a" * 59, "media_" + "x" * 53)
    assert "__" not in safe_name(("a" * 49 + "_" + "b" * 20,))


def seen(path: str, *kinds: FieldType, resource: str = "media", is_count: bool = False, hours: int = 0) -> Field:
    return Field(resource, path, frozenset(kinds), is_count, AT + timedelta(hours=hours))


def test_a_field_has_one_column_which_only_widens() -> None:
    own = seen("/own", FieldType.TEXT)
    first = register({}, [seen("/Foo", FieldType.INTEGER), own, seen("/foo", FieldType.TEXT)], {"own"})
    assert [field.column_name for field in first.values()] == ["foo", "own_2", "foo_2"]
    wider = seen("/Foo", FieldType.NUMBER, is_count=True, hours=1)
    later = register(first, [wider, own], {"own"})
    kinds = frozenset({FieldType.INTEGER, FieldType.NUMBER})
    expected = replace(first["media", "/Foo"], kinds=kinds, is_count=True, last_type_change_at=wider.first_seen_at)
    assert later == {**first, ("media", "/Foo"): expected}
    assert (first["media", "/Foo"].type, expected.type) == ("BIGINT", "DOUBLE")


def test_the_first_fields_have_columns_and_the_last_are_not_registered() -> None:
    paths = [f"/f{number}" for number in range(700)]
    found = register({}, [seen(path, FieldType.TEXT) for path in paths], set())
    assert [field.path for field in found.values()] == paths[:600]
    assert [field.path for field in found.values() if field.column_name] == paths[:300]
    of_list = register(found, [seen("/tags", FieldType.TEXT, resource="media_tags")], set())
    assert of_list["media_tags", "/tags"].column_name


def test_a_field_outside_of_items_or_with_a_nul_has_no_column() -> None:
    found = register({}, [seen("/total", resource="media_page"), seen("/a\0", FieldType.TEXT)], set())
    assert [field.column_name for field in found.values()] == [None, None]


def test_a_column_holds_every_type_of_its_field() -> None:
    for types, column in (
        ({FieldType.INTEGER, FieldType.NUMBER}, "DOUBLE"),
        ({FieldType.LONG, FieldType.NUMBER}, "VARCHAR"),
        ({FieldType.INTEGER, FieldType.LONG}, "BIGINT"),
        ({FieldType.TIME, FieldType.TEXT}, "VARCHAR"),
        ({FieldType.LIST}, "VARCHAR"),
    ):
        assert column_type(types) == column
