import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from models.partial_json import (
    Unreadable,
    certain_id,
    checked_members,
    distinct_members,
    elements,
    exact_text,
    repaired,
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


@given(st.lists(TEXTS | st.just(b"\xff") | st.just(b'"\xff,]"'), max_size=5), st.sampled_from(["", ",", " , "]))
def test_a_list_is_split_into_its_elements_whatever_they_are(parts: list[bytes], end: str) -> None:
    text = b"[" + b" ,\n".join(parts) + (end.encode() if parts else b"") + b"]"
    assert elements(text) == parts


@given(st.dictionaries(st.text(), TEXTS, max_size=5))
def test_an_object_is_split_into_its_distinct_members(parts: dict[str, bytes]) -> None:
    text = b"{" + b",".join(json.dumps(name).encode() + b" : " + part for name, part in parts.items()) + b"}"
    assert distinct_members(text) == parts
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
    "text",
    [b"", b"1", b"{}", b"[", b"]", b"[1", b"[1}", b"[{]}", b'["]', b'["\\"]', b"[1]]", b"[][]", b"[1],[2]", b"x[1]"],
)
def test_text_whose_brackets_do_not_match_is_no_list(text: bytes) -> None:
    with pytest.raises(Unreadable):
        elements(text)


@pytest.mark.parametrize("name", [rb'"\ud83d"', b'"\xff"'])
def test_a_key_that_cannot_be_stored_is_kept_as_it_was_written(name: bytes) -> None:
    assert distinct_members(b"{" + name + b":1}") == {exact_text(name): b"1"}


@pytest.mark.parametrize("text", [b"[]", b"{1:2}", b'{"a"}', b'{"a":1,"\\u0061":2}', b"{,}"])
def test_an_object_needs_different_keys(text: bytes) -> None:
    with pytest.raises(Unreadable):
        distinct_members(text)


@given(TEXTS)
def test_json_needs_no_repair(text: bytes) -> None:
    assert repaired(text) == text


def loosely(value: object) -> str:
    """Write JSON with control characters in strings and a comma after every element."""
    if isinstance(value, list):
        return "[" + "".join(f"{loosely(each)} ," for each in value) + " ]"
    if isinstance(value, dict):
        return "{" + "".join(f"{loosely(key)}: {loosely(each)},\n" for key, each in value.items()) + "}"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return json.dumps(value)


@given(JSON)
@example({"a\nb": ["\0,]", [{}], ",}"]})
def test_control_characters_and_last_commas_are_repaired(value: object) -> None:
    assert json.loads(repaired(loosely(value).encode())) == value


@given(st.binary() | st.lists(st.sampled_from([b"\\", b"x41", b"\0", b"\xff", b"a"])).map(b"".join))
def test_the_bytes_of_an_exact_text_can_be_restored(raw: bytes) -> None:
    text = exact_text(raw)
    assert "\0" not in text
    assert re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), text.encode()) == raw


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"c":"\xff","id":"1"}', "1"),
        (b'{"id":"\xff"}', None),
        (b'{"id":1,"c":NaN}', None),
        (rb'{"id":"\ud800"}', None),
        (b'{"id":"\xed\xa0\x80"}', None),
        (b'{"id":"1","id":"2"}', None),
        (b'{"data":{"id":"1"}}', None),
        (b'{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
        (b"", None),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_the_id_of_an_object_is_read_if_it_is_certain(text: bytes, found: str | None) -> None:
    assert certain_id(text) == found
