# ruff: noqa: E501 - one line each of a kind
"""Strategies for JSON texts, including ones that no Python value can represent and almost valid ones."""

import json

from hypothesis import strategies as st

NUMBERS = (
    "0", "-0", "-0.0", "1", "7", "1.50", "1e2", "1E+2", "-1e-400", "1e400", "-1e400", "1e308", "0.1", "123456789012345678",
    "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "1" + "0" * 400,
)  # fmt: skip
TEXTS = (
    "", " ", "x", "null", "NaN", "Infinity", "true", "7", "-0", "1e400", "99999999999999999999", "{", "[1]", "'", '"', "\\",
    "a\0b", "\0", "\ufffd", "é\U0001f600", "e\u0301", "\u202egpj.exe", "\u2028", "\x7f", "a\r\nb", "<script>", "%s{}",
    "2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2026-12-31T23:59:60Z", "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z", "2026-01-01T00:00:00+99:99", "2026-01-01 00:00:00+0100", "2026-01-01T00:00:00", "2026-01-01",
    "20260101T000000Z", "\u0662\u0660\u0662\u0666-01-01T00:00:00Z", "99999999999999", "infinity", "epoch",
)  # fmt: skip
# Keys that look like SQL, like a path, like our own columns, or almost like each other.
KEYS = (
    "x", "X", "y", "", " ", "0", "*", "$", "$.x", "/", "/x", "~", "~1", "#", "[0]", "a.b", "a/b", '"', "'", "\\", "k\0", "\0",
    "'; DROP TABLE core.media; --", 'x" VARCHAR, "y', "select", "order", "position", "payload", "digest", "account_id",
    "surface", "media_id", "removed_at", "first_seen_at", "_seq", "_counts", "seq", "ids", "found", "scan_id", "rowid",
    "caption", "Caption", "CAPTION", "\u0441aption", "like_count", "likes", "timestamp", "children", "carousel_media",
    "data", "\u00e9", "e\u0301", "\u0130", "i\u0307", "\u00df", "ss", "\u017f", "s", "k" * 300, "\ufffd", "\U0001f600",
)  # fmt: skip
HALVES = (r'"\ud83d"', r'"\udc00x"', r'"\uD800\uD800"', r'"a\ud83d\u0000"')


def _object(pairs: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in pairs) + "}"


def _nested(depth: int, opening: str) -> str:
    return opening * depth + "1" + ("]" if opening == "[" else "}") * depth


keys = st.sampled_from(KEYS) | st.text(max_size=5)
texts = st.sampled_from(TEXTS) | st.text(max_size=8)
deep = st.builds(_nested, st.integers(1, 180), st.sampled_from(["[", '{"a":', '{"":']))
leaves = st.one_of(
    st.sampled_from(("null", "true", "false")),
    st.sampled_from(NUMBERS),
    st.builds(json.dumps, texts, ensure_ascii=st.booleans()),
    st.sampled_from(HALVES),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda held: f"[{','.join(held)}]"),
        st.lists(st.tuples(keys, inner), max_size=4).map(_object),
    ),
    max_leaves=8,
)


def item(number: int, pairs: list[tuple[str, str]]) -> str:
    return _object([("id", f'"{number}"'), *[(key, value) for key, value in pairs if key not in ("id", "pk")]])


items = st.builds(item, st.integers(0, 99), st.lists(st.tuples(keys, values | deep), max_size=6))
records = st.one_of(items, items, items, values)


def page(records: list[str], cursor: str = "null") -> str:
    return f'{{"items":[{",".join(records)}],"next_cursor":{cursor}}}'
