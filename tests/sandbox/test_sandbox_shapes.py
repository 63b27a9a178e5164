"""The unusual shapes of items: their contents, and that they are deterministic."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from connectors.sandbox.data.catalogue import Catalogue
from connectors.sandbox.settings import SandboxSettings

Item = dict[str, Any]


def texts(shape: str, day: int = 0, seed: int = 7) -> list[str]:
    settings = SandboxSettings(shape=shape, accounts=20, posts=40, seed=seed)
    return [text for _, _, text in Catalogue(settings).truth(day)]


def items(shape: str, day: int = 0) -> list[Item]:
    return [json.loads(text) for text in texts(shape, day)]


def values(shape: str, *keys: str, day: int = 0) -> Iterator[Any]:
    """The values at these keys, without null."""
    for item in items(shape, day):
        value: Any = item
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            yield value


def kinds(shape: str, *keys: str, day: int = 0) -> set[str]:
    return {type(value).__name__ for value in values(shape, *keys, day=day)}


@pytest.mark.parametrize("shape", ["nested", "drift"])
def test_equal_seeds_serve_equal_bytes_and_others_do_not(shape: str) -> None:
    assert texts(shape, 2) == texts(shape, 2)
    assert not set(texts(shape)) & set(texts(shape, seed=8))


@pytest.mark.parametrize("shape", ["nested", "drift"])
@pytest.mark.parametrize("day", [0, 3])
def test_it_is_the_graph_catalogue_in_another_form(shape: str, day: int) -> None:
    message = [item.get("id") or item["mediaId"] for item in items(shape, day)]
    assert message == [item["id"] for item in items("graph", day)]


@pytest.mark.parametrize("shape", ["nested", "drift"])
def test_objects_have_unique_keys_and_are_valid_utf8(shape: str) -> None:
    def once(pairs: list[tuple[str, Any]]) -> Item:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    def no_constant(name: str) -> None:
        pytest.fail(f"{name} is no JSON")

    for text in texts(shape, 1):
        json.loads(text.encode(), object_pairs_hook=once, parse_constant=no_constant)


def test_nested_puts_all_values_into_objects() -> None:
    assert len({tuple(item) for item in items("nested")}) == 1
    for message, plain in zip(items("nested"), items("graph"), strict=True):
        assert message["content"]["captionText"] == plain.get("caption")
        assert message["statistics"] == {"likes": plain["like_count"], "comments": plain["comments_count"]}
        assert message["media"]["url"] == plain["media_url"]
        assert message["when"]["publishedAt"] == plain["timestamp"].replace("+0000", "Z")
        assert len(message["children"]) == len(plain.get("children", {"data": []})["data"])
    assert {len(tags) for tags in values("nested", "hashtags")} == {0, 1, 2, 3}
    assert {len(tags) for tags in values("nested", "productTags")} == {0, 1, 2}
    assert kinds("nested", "location", "geo", "lat") == {"float"}
    assert 0 < len(list(values("nested", "location"))) < len(items("nested"))


def test_drift_begins_like_the_graph_api() -> None:
    first = [
        (message, plain) for message, plain in zip(items("drift"), items("graph"), strict=True) if "Mood" not in message
    ]
    assert any(plain.items() <= message.items() for message, plain in first)
    assert not all(plain.items() <= message.items() for message, plain in first)


def test_drift_changes_types_within_one_scan() -> None:
    assert kinds("drift", "like_count") == {"int", "str", "dict"}
    assert "many" in values("drift", "like_count")
    assert kinds("drift", "location") == {"str", "dict", "list"}
    assert kinds("drift", "pinned") == {"bool", "int"}
    assert kinds("drift", "score") == {"int", "float", "str"}
    assert kinds("drift", "tags") == {"list"}
    assert {type(tag).__name__ for tags in values("drift", "tags") for tag in tags} >= {"str", "dict", "int", "list"}
    assert kinds("drift", "caption") == {"str", "dict"}
    assert kinds("drift", "timestamp") == {"str", "int"}
    assert {"2026-13-45T99:99"} < set(values("drift", "timestamp"))
    assert "yesterday" in values("drift", "edited_at")
    assert max(values("drift", "serial")) >= 2**63
    assert kinds("drift", "insights") == {"dict"}
    assert len(list(values("drift", "insights"))) < len(items("drift")) / 2


def test_drift_has_names_that_no_column_can_have() -> None:
    keys = {key for item in items("drift") for key in item}
    wanted = {"", "payload", "surface", "removed_at", "account_id", "digest", "select", "order", "nul\x00byte"}
    assert wanted <= keys
    assert {"Mood", "mood", "tags", "Tags"} <= keys
    assert any({"Mood", "mood"} <= item.keys() for item in items("drift"))
    assert any("DROP TABLE" in key for key in keys)
    assert {300} <= {len(key) for key in keys}


def test_drift_changes_the_type_of_an_existing_field() -> None:
    assert kinds("drift", "boost", "level", day=0) == {"int"}
    assert kinds("drift", "boost", "level", day=1) == {"int", "str"}


def test_a_scan_of_an_average_account_includes_every_stage() -> None:
    (account, *_) = Catalogue(SandboxSettings(shape="drift", posts=30)).accounts(0)
    scanned = [
        json.loads(text) for text in Catalogue(SandboxSettings(shape="drift", posts=30)).items(account, "posts", 0)
    ]
    assert {type(item["location"]).__name__ for item in scanned} == {"str", "dict", "list"}
    assert any("wide" in item for item in scanned)
    assert any("Mood" in item for item in scanned)


def test_some_deleted_posts_come_back() -> None:
    settings = SandboxSettings(shape="graph", accounts=80, posts=60)
    days = [{(a.id, text[7:24]) for a, s, text in Catalogue(settings).truth(n) if s == "posts"} for n in range(5)]
    staying = set.intersection(*({a.id for a in Catalogue(settings).accounts(n)} for n in range(5)))
    lives = {"".join("x" if key in day else " " for day in days) for key in set().union(*days) if key[0] in staying}
    assert {"x xxx", "x  xx", "x    "} <= lives
