"""The warning about a field that alone changes most items in every sync."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connectors.sandbox.http.replies import PageRequest
from connectors.state.inbox import count_landings
from connectors.warehouse.maintenance.rebuild import rebuild
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.queries.reader import open_snapshot
from flows.reporting.reader import Reader
from flows.reporting.run_report import last_report
from models.mapping import BUILT_IN
from tests.api.listed import ListedApi, Records
from tests.runs import open_run_resources, synced

pytestmark = pytest.mark.anyio

CODE = "items_changed_by_one_field"

Varies = Callable[[int, int], dict[str, Any]]


class Service(ListedApi):
    """An API that writes zeros behind each `n`, more than Python converts."""

    def render(self, request: PageRequest) -> bytes:
        return re.sub(rb'"n": \d+', lambda n: n[0] + b"0" * 5_000, super().render(request))


def _changed(varies: Varies, day: int, items: Records) -> Records:
    return [item | varies(day, number) for number, item in enumerate(items)]


async def _warnings(
    folder: Path, service: ListedApi, varies: Varies, syncs: Sequence[Sequence[str]] = ((),) * 4
) -> list[list[str]]:
    """Run a sync on each day; return its warnings. Fields of the posts depend on the day and the post's number."""
    found = []
    for day, surfaces in enumerate(syncs):
        service.change_posts = partial(_changed, varies, day)
        report = await synced(folder, service, surfaces=surfaces)
        found.append([f"{one.text} {one.fix}" for one in report.warnings if one.code == CODE])
        service.clock.passed += 86_400
    return found


def viewers(day: int) -> Records:
    return [{"id": number, "name": f"viewer {number}"} for number in range(day)]


# Fields of day `d` and post `p` of 4, and the name in the warning; None if there is none. Each takes four runs.
FIELDS: dict[str, tuple[Varies, str | None]] = {
    "a field": (lambda d, _: {"fetched_at": f"at {d}"}, "fetched_at"),
    "in an object": (lambda d, _: {"meta": {"request": {"id": d}, "a": 1}}, "meta.request.id"),
    "in a list": (lambda d, _: {"children": [{"id": "1", "seen": d}, {"id": "2", "seen": d}]}, "children"),
    "a list with more elements": (lambda d, _: {"seen_by": viewers(d)}, "seen_by"),
    "an address": (lambda d, _: {"picture": f"https://cdn.example.com/1?at={d}"}, None),
    "a key with a dot": (lambda d, _: {"a.b": d}, "/a.b"),
    "of most items": (lambda d, p: {"at": d * (p < 3), "likes": d}, "at"),
    "of half of the items": (lambda d, p: {"at": d * (p < 2)}, None),
    "two fields": (lambda d, _: {"at": d, "id_of_request": d}, None),
    "not the same field": (lambda d, _: {f"at_{d}": d}, None),
    "not on one day": (lambda d, _: {"at": d - (d == 2)}, None),
    "a count": (lambda d, _: {"likes": d}, None),
    "beside a long integer": (lambda d, _: {"n": 7, "at": d}, "at"),
}

QUICK = {"of half of the items", "beside a long integer"}


@pytest.mark.parametrize(
    ("varies", "name"),
    [pytest.param(*of, id=name, marks=() if name in QUICK else pytest.mark.long) for name, of in FIELDS.items()],
)
async def test_a_field_that_alone_changes_most_items_three_times_is_named(
    tmp_path: Path, varies: Varies, name: str | None
) -> None:
    *before, found = await _warnings(tmp_path, Service(accounts=2, posts=4), varies)
    assert (before, len(found)) == ([[], [], []], name is not None)
    assert all(f"{name} alone changed most items" in text and f'ignore = ["{name}"]' in text for text in found)


async def test_syncs_of_stories_neither_prevent_the_warning_nor_hide_it(tmp_path: Path) -> None:
    syncs = ((), ("stories",)) * 4
    found = await _warnings(tmp_path, Service(accounts=2, posts=4), lambda d, _: {"fetched_at": f"at {d}"}, syncs)
    assert [len(warned) for warned in found] == [0, 0, 0, 0, 0, 0, 1, 0]
    with open_snapshot(tmp_path / "analytics.duckdb") as snapshot:
        shown = last_report(Reader(snapshot))
    assert shown is not None
    assert (shown.selected, [one.code for one in shown.warnings]) == ("stories", [CODE])


async def test_the_setting_that_is_named_ends_the_warning(tmp_path: Path) -> None:
    service = Service(accounts=2, posts=4)
    assert (await _warnings(tmp_path, service, lambda d, _: {"by": viewers(d)}))[3]
    service.change_posts = partial(_changed, lambda d, _: {"by": viewers(d)}, 4)
    async with open_run_resources(tmp_path, service) as resources:
        files = resources.warehouse.files
        mapping, take = replace(BUILT_IN, ignore=("/by",)), lambda number: files.state.write(count_landings, number)
        await resources.warehouse.write(rebuild, files.raw, mapping, take=take, force=False)
    report = await synced(tmp_path, service, mapping={"ignore": ["/by"]})
    assert (report.warnings, report.media) == ((), MergeStats())
