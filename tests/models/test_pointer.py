import json
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.mapping import Keys, to_keys, to_pointer

# Keys that look like a path, or almost like each other.
KEYS = (
    "x", "", " ", "0", "*", "$.x", "/", "/x", "~", "~1", "~01", "#", "[0]", "a.b", "a/b", '"', "\\",
    "\u00e9", "e\u0301",
)  # fmt: skip

keys = st.lists(
    st.one_of(
        st.sampled_from(KEYS),
        st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=5),
    ),
    min_size=1,
    max_size=4,
).map(tuple)


@given(keys)
def test_pointers_round_trip(path: Keys) -> None:
    assert to_keys(to_pointer(path)) == path


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as db:
        yield db


@given(path=keys)
@settings(deadline=None)
def test_duckdb_finds_the_value_at_a_pointer(db: duckdb.DuckDBPyConnection, path: Keys) -> None:
    document: object = "here"
    for key in reversed(path):
        document = {"other": 1, key: document}
    query = "SELECT json_extract_string(?::JSON, ?), json_extract_string(?::JSON, [?]::VARCHAR[])"
    text = json.dumps(document)
    asked = to_pointer(path)
    assert db.execute(query, [text, asked, text, asked]).fetchall() == [("here", ["here"])]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.owner.username", ("owner", "username")),
        ("/owner/username", ("owner", "username")),
        ("/a~1b/c~0d", ("a/b", "c~d")),
        ("/~01", ("~1",)),
    ],
)
def test_a_person_writes_a_path_in_either_way(path: str, expected: Keys) -> None:
    assert to_keys(path) == expected


@pytest.mark.parametrize("path", ["", "owner", "$", "$.", "$..a", "$.a.", "$.a[0]", "$.*", '$."a"', "$a"])
def test_anything_else_is_not_a_path(path: str) -> None:
    with pytest.raises(ValueError, match=r"is not a path; use \$\.owner\.username"):
        to_keys(path)
