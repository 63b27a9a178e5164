import string
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.fields import RESERVED, TOUCHY, safe_name, table_name, unique
from models.mapping import Keys

LONGEST = 63

# Where a person may write a column's name.
QUERIES = """
SELECT {0} FROM t
SELECT t.{0} FROM t
SELECT _i, {0} FROM t
SELECT {0}, _i FROM t
FROM t SELECT {0}
SELECT {0} IS NULL FROM t
SELECT {0}::VARCHAR FROM t
SELECT _i FROM t ORDER BY {0}
SELECT {0} + 1 FROM t WHERE {0} > 1 AND NOT {0} = 2
SELECT count({0}) FROM t GROUP BY {0} HAVING max({0}) > 1
SELECT sum({0}) FILTER ({0} > 1) OVER (PARTITION BY {0} ORDER BY {0}) FROM t
SELECT CASE WHEN {0} = 1 THEN {0} END FROM t
SELECT _i AS {0} FROM t
SELECT * EXCLUDE ({0}) FROM t
SELECT a._i FROM t AS a JOIN t AS b USING ({0})
""".strip().splitlines()


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as db:
        yield db


def refused(db: duckdb.DuckDBPyConnection, name: str) -> list[str]:
    """The queries that DuckDB does not take with this name unquoted."""
    db.execute("CREATE OR REPLACE TABLE t (_i INTEGER)")
    found: list[str] = []
    for query in (f"ALTER TABLE t ADD COLUMN {name} INTEGER", *(query.format(name) for query in QUERIES)):
        try:
            db.execute(query)
        except duckdb.Error:
            found.append(query)
    return found


def words(db: duckdb.DuckDBPyConnection) -> dict[str, str]:
    return dict(db.execute("SELECT keyword_name, keyword_category FROM duckdb_keywords()").fetchall())


def test_the_keywords_equal_those_of_duckdb(db: duckdb.DuckDBPyConnection) -> None:
    keywords = words(db)
    assert {word for word, json_type in keywords.items() if json_type == "reserved"} == RESERVED
    assert {word for word in keywords if word not in RESERVED and refused(db, word)} == TOUCHY - {"rowid"}


def test_every_keyword_becomes_a_name_that_needs_no_quotes(db: duckdb.DuckDBPyConnection) -> None:
    # The other keywords need none, as the test above shows.
    assert {word for word in words(db) if safe_name((word,)) != word} == (RESERVED | TOUCHY) - {"rowid"}
    for name in {safe_name((key,)) for word in RESERVED | TOUCHY for key in (word, word.upper())}:
        assert refused(db, name) == [], name
    assert safe_name(("rowid",)) == "rowid_"


HOSTILE = (
    "", "_", "__", " ", ".", "1", "2026-01-01", "9lives", "½", "²", "١٢", "a'b", 'a"b', "a;DROP TABLE t", "--", "/*",
    "$1", "?", "%s", "{0}", "\n", "\u00a0", "\u200b", "\ufeff", "é", "É", "ß", "ẞ", "İ", "\u0131", "\u017f", "Å", "ﬁ",
    "日本", "🍲", "ᾳ", "\u13a0", "x" * 500, "ß" * 40, "日" * 70, "ROWID", "\ud800", "e\u0301",
)  # fmt: skip

hostile_keys = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=70)), min_size=1, max_size=3).map(tuple)


@given(keys=hostile_keys)
@settings(deadline=None)
def test_the_column_name_of_any_field_needs_no_quotes(db: duckdb.DuckDBPyConnection, keys: Keys) -> None:
    name, table = safe_name(keys), table_name("media", keys)
    assert refused(db, name) == []
    db.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT 1 AS {name}")
    assert db.execute(f"SELECT {table}.{name} FROM {table}").fetchall() == [(1,)]
    assert (name, table) == (name.casefold(), table.casefold())
    assert 0 < len(name) <= LONGEST - len("_600")
    assert len(table) <= LONGEST - len("_300")
    assert safe_name(keys) == name


@pytest.mark.parametrize(
    ("keys", "name", "table"),
    [
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
    ],
)
def test_names_are_snake_case_and_a_child_table_is_called_after_its_list(keys: Keys, name: str, table: str) -> None:
    assert (safe_name(keys), table_name("media", keys)) == (name, table)


def test_long_names_are_cut_and_stay_distinct() -> None:
    names = [safe_name((string.ascii_lowercase * 3, last)) for last in "ab"]
    assert names[0] != names[1]
    assert [name.rpartition("_")[0] for name in names] == [(string.ascii_lowercase * 3)[:50]] * 2
    assert safe_name(("a" * 59,)) == "a" * 59
    assert safe_name(("a" * 49 + "_" + "b" * 20,)).startswith("a" * 49 + "_")
    assert "__" not in safe_name(("a" * 49 + "_" + "b" * 20,))
    assert table_name("media", ("x" * 53,)) == "media_" + "x" * 53
    assert len(table_name("media", ("x" * 54,))) == 59


def test_a_name_that_is_taken_gets_a_number() -> None:
    assert [unique("a", taken) for taken in ((), {"a"}, {"a", "a_2", "a_3"})] == ["a", "a_2", "a_4"]
