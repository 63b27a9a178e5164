"""One example of a signature must say what all items of it say."""

import json
from collections.abc import Sequence

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.warehouse import shapes as module
from connectors.warehouse.shapes import shapes
from models.fields import MEDIA, Field
from models.kinds import Kind, walk
from models.pointer import to_pointer
from tests.warehouse.house import T0

KEYS = st.sampled_from(["id", "a", "b", "0", "with space", 'quo"te', "sl/ash"])
SCALARS = st.sampled_from([None, True, 0, -1, 1.5, 10**19, "", "x", "2026-01-01T00:00:00Z"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
ITEMS = st.lists(st.dictionaries(KEYS, VALUES, max_size=4).map(json.dumps), min_size=1, max_size=8)


def told(items: Sequence[str], known: Sequence[Field]) -> set[tuple[tuple[str, ...], str]]:
    """What the structures of these items say, as far as they are asked for."""
    with duckdb.connect() as db:
        db.execute("CREATE TABLE items (payload JSON, received_at TIMESTAMPTZ, place BIGINT)")
        db.executemany("INSERT INTO items VALUES (?, ?, ?)", [(item, T0, n) for n, item in enumerate(items)])
        found = shapes(db, "FROM items", known)
    return {(met.keys, met.kind.value) for text, _ in found for met in walk(json.loads(text))}


def registry_of(items: Sequence[str]) -> Sequence[Field]:
    kinds: dict[str, list[Kind]] = {}
    for keys, kind in sorted(told(items, [])):
        kinds.setdefault(to_pointer(keys), []).append(Kind(kind))
    return [
        Field(MEDIA, path, path, number, dict.fromkeys(found, T0)) for number, (path, found) in enumerate(kinds.items())
    ]


@settings(max_examples=60, deadline=None)
@given(before=ITEMS, now=ITEMS)
def test_examples_say_all_that_the_items_say_whatever_is_known(before: list[str], now: list[str]) -> None:
    assert told(now, registry_of(before)) == told(now, [])
    assert told(before, registry_of(before)) == told(before, [])


@pytest.mark.parametrize(
    ("known", "items"),
    [
        ('{"a":1}', ['{"a":1}', '{"a":1,"b":2}']),
        ('{"a":1}', ['{"a":1}', '{"a":{"c":1}}', '{"a":{"d":1}}']),
        ('{"a":{"c":1}}', ['{"a":{"c":1}}', '{"a":{"e":1}}']),
        ('{"a":[1]}', ['{"a":[1]}', '{"a":["x"]}', '{"a":[{"c":1}]}', '{"a":[]}']),
        ('{"a":1}', ['{"a":1}', '{"a":[1]}', '{"a":[{"c":1}]}']),
        ('{"a":1,"b":1}', ['{"a":1,"a":2}', '{"b":1,"c":1}']),
    ],
)
def test_what_is_new_behind_a_known_field_is_looked_into(known: str, items: list[str]) -> None:
    assert told(items, registry_of([known])) == told(items, [])


def test_items_of_more_signatures_than_are_worth_it_are_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    items = ['{"a":1}', '{"a":1,"b":2}', '{"c":[1]}', '{"d":{"e":1}}']
    monkeypatch.setattr(module, "_MOST_SIGNATURES", 3)
    assert told(items, registry_of(items[:1])) == told(items, [])
    monkeypatch.setattr(module, "_MOST_SIGNATURES", 0)
    assert told(items[:1], registry_of(items[:1])) == told(items[:1], [])
