import json

import duckdb
import pytest
from hypothesis import given
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
def test_pointers_round_trip_and_lead_duckdb_to_the_value(path: Keys) -> None:
    asked = to_pointer(path)
    assert to_keys(asked) == path
    document: object = "here"
    for key in reversed(path):
        document = {"other": 1, key: document}
    found = duckdb.execute("SELECT json_extract_string(?::JSON, ?)", [json.dumps(document), asked]).fetchall()
    assert found == [("here",)]


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
