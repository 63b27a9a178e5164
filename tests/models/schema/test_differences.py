from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from models.mapping import BUILT_IN
from models.schema.differences import differing_fields


def nested(depth: int, value: object) -> Any:  # noqa: ANN401 - JSON
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("before", "after", "ignore", "names"),
    [
        ({"at": 1, "by": None}, {"at": 2, "by": ""}, (), ["at"]),
        ({"at": 1}, {"at": 2}, ("/at",), []),
        ({"likes": 1, "a": True}, {"likes": 2, "a": 1}, (), ["a"]),
        ({"u": [{"url": "https://a/1?sig=1"}]}, {"u": [{"url": "https://a/2?sig=1"}]}, (), []),
        ({"tags": ["a"]}, {"tags": ["a", "b"]}, (), ["tags"]),
        ({"tags": [1, [2]]}, {"tags": [1, [3, {"x": 4}]]}, (), ["tags"]),
        # Elements of a list of objects.
        ({"v": [{"at": 1}, {"at": 1}]}, {"v": [{"at": 2}, {"at": 2}]}, (), ["v.at"]),
        ({"v": [{"at": 1, "b": 1}]}, {"v": [{"at": 2, "b": 2}]}, ("/v/at",), ["v.b"]),
        ({"v": [{"tags": [{"at": 1}]}]}, {"v": [{"tags": [{"at": 2}]}]}, ("/v/tags/at",), ["v.tags"]),
        ({"v": [{"tags": [{"at": 1}]}]}, {"v": [{"tags": [{"at": 2}]}]}, ("/v/tags",), ["v"]),
        # More or fewer of them.
        ({"v": [{"a": 1, "b": 1}]}, {"v": [{"a": 1, "b": 1}, {"a": 2, "b": 2}]}, (), ["v"]),
        ({"o": {"v": []}}, {"o": {"v": [{"a": 1}]}}, (), ["o.v"]),
        ({"v": [{"a": 1, "b": 1}]}, {}, ("/v/a",), ["v"]),
        ({"v": [{"a": 1, "url": "x"}]}, {"v": []}, ("/v/a",), ["v"]),
        ({"v": [{"a": 1}], "c": 1}, {"v": [], "c": 2}, ("/v/a",), ["c"]),
        ({"v": [{"a": 1}], "c": 1}, {"v": [], "c": 2}, ("/v",), ["c"]),
        ({"v": [{"url": "x"}], "w": [{"b": 1}]}, {"v": [], "w": []}, ("/w",), ["v"]),
        # Objects that are stored as JSON.
        (nested(8, {"b": {"c": 1}}), nested(8, {"b": {"c": 2}}), (), [".".join("aaaaaaaa")]),
        (nested(7, {"b": 1}), nested(7, {"b": 2}), (), [".".join("aaaaaaab")]),
        ({"v": [nested(8, {"c": 1})]}, {"v": [nested(8, {"c": 2})]}, (), [".".join("vaaaaaaaa")]),
    ],
)
def test_the_fields_that_made_a_version_are_named_as_they_can_be_ignored(
    before: Any,  # noqa: ANN401 - JSON
    after: Any,  # noqa: ANN401 - JSON
    ignore: tuple[str, ...],
    names: Collection[str],
) -> None:
    mapping = replace(BUILT_IN, ignore=ignore)
    for pair in ((before, after), (after, before)):
        assert {".".join(keys) for keys in differing_fields(*pair, mapping)} == set(names)
