"""The warning about a field that alone changes most items in every sync."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from connectors.source.endpoints import ApiRequest
from connectors.warehouse.maintenance.changing_fields import CODE
from connectors.warehouse.merge.run_counts import MergeStats
from flows.pipeline import run_sync
from models.schema.mapping_built_in import BUILT_IN
from tests.flows.fake_api import FakeApi, open_run_resources, request

pytestmark = pytest.mark.anyio

Varies = Callable[[int, int], dict[str, Any]]


@dataclass
class _Changing(FakeApi):
    """Posts with fields that depend on the day and the number of the post."""

    varies: Varies = lambda _day, _post: {}
    day: int = 0

    def _items(self, request: ApiRequest, params: dict[str, str]) -> list[dict[str, Any]]:
        items = super()._items(request, params)
        is_media = request.operation != "accounts.list"
        return [item | (self.varies(self.day, n) if is_media else {}) for n, item in enumerate(items)]


async def _warnings(folder: Path, service: _Changing, days: int) -> list[list[str]]:
    found = []
    for _ in range(days):
        async with open_run_resources(folder, service) as resources:
            report = await run_sync(request(folder), resources)
        found.append([f"{one.detail} {one.hint}" for one in report.warnings if one.code == CODE])
        service.day += 1
        service.clock.passed += 86_400
    return found


# Fields of day `d` and post `p` of 4, and the name in the warning; None if there is none. Each takes four runs.
FIELDS: dict[str, tuple[Varies, str | None]] = {
    "a field": (lambda d, _: {"fetched_at": f"at {d}"}, "fetched_at"),
    "in an object": (lambda d, _: {"meta": {"request": {"id": d}, "a": 1}}, "meta.request.id"),
    "in a list": (lambda d, _: {"children": [{"id": "1", "seen": d}, {"id": "2", "seen": d}]}, "children.seen"),
    "an address": (lambda d, _: {"picture": f"https://cdn.example.com/1?at={d}"}, "picture"),
    "a key with a dot": (lambda d, _: {"a.b": d}, "/a.b"),
    "of most items": (lambda d, p: {"at": d * (p < 3), "likes": d}, "at"),
    "of half of the items": (lambda d, p: {"at": d * (p < 2)}, None),
    "two fields": (lambda d, _: {"at": d, "id_of_request": d}, None),
    "not the same field": (lambda d, _: {f"at_{d}": d}, None),
    "not on one day": (lambda d, _: {"at": d - (d == 2)}, None),
    "a count": (lambda d, _: {"likes": d}, None),
}


QUICK = {"of half of the items"}


@pytest.mark.parametrize(
    ("varies", "name"),
    [pytest.param(*of, id=name, marks=() if name in QUICK else pytest.mark.long) for name, of in FIELDS.items()],
)
async def test_a_field_that_alone_changes_most_items_three_times_is_named(
    tmp_path: Path, varies: Varies, name: str | None
) -> None:
    warned = await _warnings(tmp_path, _Changing(accounts=2, posts=4, varies=varies), 4)
    assert warned[:3] == [[], [], []]
    if name is None:
        assert warned[3] == []
    else:
        (text,) = warned[3]
        assert f"{name} alone changed most items" in text
        assert f'ignore = ["{name}"]' in text


async def test_the_setting_that_is_named_ends_the_warning(tmp_path: Path) -> None:
    service = _Changing(accounts=2, posts=4, varies=lambda d, _: {"meta": {"at": d}})
    assert (await _warnings(tmp_path, service, 4))[3]
    mapping = replace(BUILT_IN, ignore=("/meta/at",))
    async with open_run_resources(tmp_path, service, mapping=mapping) as resources:
        report = await run_sync(replace(request(tmp_path), mapping=mapping), resources)
    assert (report.warnings, report.media) == ((), MergeStats())
