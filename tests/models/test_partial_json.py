import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.partial_json import (
    Unreadable,
    checked_members,
    elements,
    exact_text,
    members,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
TEXTS = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode(
        errors="surrogatepass"
    ),
    JSON,
    st.booleans(),
    st.none() | st.integers(0, 1),
)


@given(st.lists(TEXTS, max_size=5))
def test_a_list_is_split_into_its_elements(parts: list[bytes]) -> None:
    assert elements(b"[" + b" ,\n".join(parts) + b"]") == parts


@given(st.dictionaries(st.text(), TEXTS, max_size=5))
def test_an_object_is_split_into_its_members(parts: dict[str, bytes]) -> None:
    text = b"{" + b",".join(json.dumps(name).encode() + b" : " + part for name, part in parts.items()) + b"}"
    assert members(text) == parts
    assert checked_members(text) == parts


NAMES = st.sampled_from(["a", "b", "é", "\n"])


@given(st.lists(st.tuples(NAMES, TEXTS | st.sampled_from([b"1", b"12", b"[]"])), max_size=5))
def test_a_duplicate_key_of_an_object_is_found(pairs: list[tuple[str, bytes]]) -> None:
    text = b"{" + b", ".join(json.dumps(name).encode() + b": " + value for name, value in pairs) + b"}"
    if len(dict(pairs)) == len(pairs):
        assert checked_members(text) == dict(pairs)
        return
    with pytest.raises(Unreadable, match="it contains a duplicate key"):
        checked_members(text)


@pytest.mark.parametrize(
    "odd", [rb'{"a": "\ud83d"}', rb'["\ude00", "\ud83d"]', b'{"\xff": 1}', b'"\xed\xa0\xbd"', b"7" * 5000]
)
def test_values_that_cannot_be_decoded_keep_their_bytes(odd: bytes) -> None:
    parts = [b"1", odd, rb'"\ud83d\ude00"', odd]
    text = b"[" + b", ".join(parts) + b"]"
    assert elements(text) == parts
    assert checked_members(b'{"a": ' + text + rb', "b":' + odd + b"}") == {"a": text, "b": odd}


@pytest.mark.parametrize("text", [b"", b"1", b"{}", b"[", b"[1}", b'["\\"]', b"[1]]", b"[1,]", b"[NaN]", b"x[1]"])
def test_text_that_is_not_json_is_no_list_and_no_object(text: bytes) -> None:
    with pytest.raises(Unreadable):
        elements(text)
    with pytest.raises(Unreadable):
        members(b"{1:2}" if text == b"{}" else text)


@given(st.binary() | st.lists(st.sampled_from([b"\\", b"x41", b"\0", b"\xff", b"a"])).map(b"".join))
def test_the_bytes_of_an_exact_text_can_be_restored(raw: bytes) -> None:
    text = exact_text(raw)
    assert "\0" not in text
    assert re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), text.encode()) == raw
