import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.decoding import Unreadable, elements, members, read_object

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
TEXTS = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode(),
    JSON,
    st.booleans(),
    st.none() | st.integers(0, 1),
)


@given(st.lists(TEXTS, max_size=5))
def test_a_list_is_split_into_its_elements(parts: list[bytes]) -> None:
    assert elements(b"[" + b" ,\n".join(parts) + b"]") == parts


NAMES = st.sampled_from(["a", "b", "é", "\n"])


@given(st.lists(st.tuples(NAMES, TEXTS | st.sampled_from([b"1", b"12", b"[]"])), max_size=5))
def test_an_object_is_split_into_its_members_unless_it_has_a_duplicate_key(pairs: list[tuple[str, bytes]]) -> None:
    text = b"{" + b", ".join(json.dumps(name).encode() + b": " + value for name, value in pairs) + b"}"
    if len(dict(pairs)) == len(pairs):
        assert members(text) == dict(pairs)
        return
    with pytest.raises(Unreadable, match="it contains a duplicate key"):
        members(text)


@given(st.text(st.characters() | st.characters(categories=["Cs"])))
def test_halves_of_characters_are_replaced_and_pairs_stay(text: str) -> None:
    read, _ = read_object(json.dumps({"a": text, "b": "\ud83d"}).encode())
    assert json.loads(read)["a"] == re.sub("[\ud800-\udfff]", "\ufffd", json.loads(json.dumps(text)))


@pytest.mark.parametrize("text", [b"", b"1", b"{}", b"[", b"[1}", b'["\\"]', b"[1]]", b"[1,]", b"[NaN]", b"x[1]"])
def test_text_that_is_not_json_is_no_list_and_no_object(text: bytes) -> None:
    with pytest.raises(Unreadable):
        elements(text)
    with pytest.raises(Unreadable):
        members(b"{1:2}" if text == b"{}" else text)
