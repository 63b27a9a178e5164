"""Arrow reads the same values from items as they were received and as they were rewritten."""

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.warehouse.ingest import arrow_json, normalizer
from connectors.warehouse.ingest.arrays import are_instants, array_of, times_of
from connectors.warehouse.ingest.decode import Decoded, Decoder, with_times
from connectors.warehouse.ingest.layout import Layout
from connectors.warehouse.ingest.split import split
from connectors.warehouse.schema.field_registry import own_names
from models.mapping import BUILT_IN
from models.schema.fields import Registry
from models.schema.json_types import EXACT
from models.times import is_instant, time_of
from tests.models.schema.test_times import TEXTS

T0 = datetime(2026, 3, 1, tzinfo=UTC)
OWN = own_names(BUILT_IN)

KEYS = st.sampled_from(
    ["id", "a", "b", "0", "", "with space", 'quo"te', "sl/ash", "children", "data", "caption", "text"]
)
SCALARS = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        -1,
        7,
        1.5,
        -0.0,
        1e300,
        EXACT + 1,
        2**63 - 1,
        -(2**63),
        2**63,
        10**40,
        "",
        "x",
        "💩",
        "\x00",
        "a\nb",
        "2026-01-01T00:00:00Z",
        "2026-01-01",
        "12",
    ]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
ITEMS = st.lists(st.dictionaries(KEYS, VALUES, max_size=5), min_size=1, max_size=12)


def raw(items: Sequence[object]) -> list[bytes]:
    return [json.dumps(item, ensure_ascii=False).encode() for item in items]


def decoded(items: Sequence[bytes], registry: Registry | None = None) -> Decoded:
    decoder = Decoder(BUILT_IN, registry or {}, OWN, lambda _: T0)
    decoder.add(range(len(items)), items)
    return decoder.finish()


def plain(table: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - pyarrow has no types
    rows = table.to_pylist()
    return sorted(rows, key=lambda row: (row["order_key"], row.get("position", 0)))


def read_rewritten(items: Sequence[bytes], layout: Layout) -> dict[str, list[dict[str, Any]]]:
    found = [item for order_key, one in enumerate(items) if (item := normalizer.parse(order_key, one)) is not None]
    lines = [normalizer.rewritten(item, layout) for item in found]
    order_keys = array_of([item.order_key for item in found], pa.int64())
    media, children = arrow_json.read_rewritten(lines, order_keys, layout)
    of_children = {name: plain(with_times(cells, layout.children[name])) for name, cells in children.items()}
    return {"media": plain(with_times(media, layout.media)), **of_children}


@settings(max_examples=60)
@given(ITEMS)
def test_items_read_as_received_and_rewritten_have_the_same_values(items: list[dict[str, Any]]) -> None:
    lines = raw(items)
    learned = decoded(lines)
    again = decoded(lines, learned.registry)
    assert {"media": plain(again.media), **{name: plain(table) for name, table in again.children.items()}} == (
        read_rewritten(lines, again.layout)
    )


@settings(max_examples=20)
@given(ITEMS, ITEMS)
def test_items_decoded_together_or_one_by_one_are_the_same(
    before: list[dict[str, Any]], now: list[dict[str, Any]]
) -> None:
    lines = raw([*before, *now])
    first = decoded(raw(before))
    decoder = Decoder(BUILT_IN, first.registry, OWN, lambda _: T0)
    for order_key, line in enumerate(lines):
        decoder.add([order_key], [line])
    apart = decoder.finish()
    assert plain(apart.media) == read_rewritten(lines, apart.layout)["media"]


_ARRAYS = st.one_of(
    st.tuples(st.lists(st.none() | TEXTS), st.just(pa.string())),
    st.tuples(st.lists(st.none() | TEXTS.filter(lambda text: time_of(text) is not None)), st.just(pa.string())),
    st.tuples(st.lists(st.none() | st.integers(10**9, 10**10 - 1)), st.just(pa.int64())),
    st.tuples(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.just(pa.int64())),
    st.tuples(st.lists(st.none() | st.floats()), st.just(pa.float64())),
    st.tuples(st.lists(st.none() | st.booleans()), st.just(pa.bool_())),
)


@settings(max_examples=100)
@given(_ARRAYS)
@example((["2026-01-02T03Z"], pa.string()))
@example((["2026-01-02 03+00:00"], pa.string()))
@example((["0000-01-02T03:04:05Z"], pa.string()))
@example((["9999-12-31T23:59:59Z"], pa.string()))
def test_times_are_read_together_as_they_are_one_by_one(array: tuple[list[Any], Any]) -> None:
    values, kind = array
    given_array = pa.array(values, kind)
    assert times_of(given_array).to_pylist() == list(map(time_of, values))
    if pa.types.is_string(kind):
        assert are_instants(given_array) == all(value is None or is_instant(value) for value in values)


@pytest.mark.parametrize(
    ("known", "item"),
    [
        ({"a": 1}, {"a": "x"}),
        ({"a": 1}, {"a": 1.5}),
        ({"a": [1]}, {"a": [-EXACT - 1]}),
        ({"a": 1}, {"a": 2**63}),
        ({"a": "2026-01-01T00:00Z"}, {"a": "2026-01-01"}),
        ({"a": 1.5}, {"a": EXACT + 1}),
        ({"a": [1.5]}, {"a": [EXACT + 1]}),
        ({"a": 1}, {"b": 1}),
        ({"a": {"b": 1}}, {"a": [1]}),
        ({"a": None}, {"a": 1}),
        ({"children": [{"b": 1}]}, {"children": [{"c": 1}]}),
    ],
)
def test_arrow_refuses_an_item_with_an_unregistered_type(known: object, item: object) -> None:
    layout = decoded(raw([known])).layout
    assert arrow_json.read(raw([known]), layout) is not None
    assert arrow_json.read(raw([known, item]), layout) is None


def test_of_a_key_given_twice_the_first_counts() -> None:
    [row] = plain(decoded([b'{"a":1,"b":2,"a":3}'], decoded(raw([{"a": 1, "b": 2}])).registry).media)
    assert [row["c0"], row["c1"]] == [1, 2]


def test_one_irregular_item_does_not_send_its_batch_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = raw([{"id": str(number), "likes": number} for number in range(4000)])
    registry = decoded(lines[:1]).registry
    lines[2500] = b'{"id":"2500","likes":"many"}'
    read: list[int] = []
    parse = normalizer.parse

    def watched(order_key: int, one: bytes) -> normalizer.ParsedItem | None:
        read.append(order_key)
        return parse(order_key, one)

    monkeypatch.setattr(normalizer, "parse", watched)
    found = decoded(lines, registry)
    assert found.media.num_rows == 4000
    assert 2500 in read
    assert len(set(read)) < 4000


def test_items_that_are_not_objects_do_not_send_the_others_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    known = decoded(raw([{"a": 1, "b": "x"}])).registry
    monkeypatch.setattr(normalizer, "parse", lambda *_: pytest.fail("an item was parsed in Python"))
    body = json.dumps({"items": [{"a": number, "b": "y"} if number % 20 else None for number in range(200)]})
    items, _ = split([(0, body.encode())])
    found = decoded(items.raw, known)
    assert [row["order_key"] for row in plain(found.media)] == [number for number in range(200) if number % 20]


def test_pages_are_split_into_the_bytes_that_came() -> None:
    body = b'{"x":{"items":[9]}, "items" : [ {"a" : 1.50 } ,{"b":"\\u00e9"}, null,5],"next_cursor":null}'
    items, unreadable = split([(1, body), (2, b"[]"), (3, b'{"items":[{}]}')])
    assert list(map(bytes, items.raw)) == [b'{"a" : 1.50 }', b'{"b":"\\u00e9"}', b"null", b"5", b"{}"]
    assert items.order_keys == [*range(1 << 26, (1 << 26) + 4), 3 << 26]
    assert unreadable == [(2, b"[]")]
    assert items.hashes[0] != items.hashes[1]


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"items":{}}', b'{"items":[1', b"{}", b"[" * 5000])
def test_a_malformed_page_is_reported(body: bytes) -> None:
    items, unreadable = split([(1, body)])
    assert (items.raw, unreadable) == ([], [(1, body)])


HOSTILE = """
import sys
from datetime import UTC, datetime
from tests.warehouse.ingest.test_warehouse_decode import decoded
deep = b'{"a":' * 190 + b"1" + b"}" * 190
too_deep = b'{"a":' * 250 + b"1" + b"}" * 250
lines = [b"null", b"5", b"[]", b'""', deep, b'{"a":1e999}', b'{"a":' + b"9" * 6000 + b"}", b"{}", too_deep]
for known in ({}, decoded([b'{"a":1}']).registry, decoded([b'{"a":{"b":[1]}}']).registry):
    assert sorted(decoded(lines, known).media["order_key"].to_pylist()) == [4, 5, 6, 7]
print("alive")
"""


def test_no_item_crashes_the_process() -> None:
    # In a separate process, because a crash would end this one.
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "alive\n", done.stderr[-2000:]


def test_instants_are_read_where_neither_pandas_nor_numpy_is_installed() -> None:
    # As in a user's environment, in a process of the command line.
    script = """
import sys
sys.modules["pandas"] = sys.modules["numpy"] = None
import pyarrow as pa
from connectors.warehouse.ingest.arrays import instants_of
print(*instants_of(pa.array([1_772_280_000_000_001, -1], pa.timestamp("us", tz="UTC"))))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "2026-02-28 12:00:00.000001+00:00 1969-12-31 23:59:59.999999+00:00\n"
