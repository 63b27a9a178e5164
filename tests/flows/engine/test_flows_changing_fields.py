"""The warning about a field that alone changes most items in every sync."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.api.listed import ListedApi, Records
from tests.runs import synced

pytestmark = pytest.mark.anyio

CODE = "items_changed_by_one_field"

Varies = Callable[[int, int], dict[str, Any]]


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


# Fields of day `d` and post `p` of 4, and the name in the warning; None if there is none. Each takes four runs.
@pytest.mark.parametrize(
    ("varies", "name"),
    [
        (lambda d, p: {"at": {"of": d * (p < 3)}, "likes": d}, "/at/of"),
        (lambda d, p: {"at": d * (p < 2)}, None),
    ],
    ids=["most items", "half of the items"],
)
async def test_a_field_that_alone_changes_most_items_three_times_is_named(
    tmp_path: Path, varies: Varies, name: str | None
) -> None:
    *before, found = await _warnings(tmp_path, ListedApi(accounts=2, posts=4), varies)
    assert (before, len(found)) == ([[], [], []], name is not None)
    assert all(f"{name} alone changed most items" in text and f'ignore = ["{name}"]' in text for text in found)


async def test_syncs_of_stories_neither_prevent_the_warning_nor_hide_it(tmp_path: Path) -> None:
    syncs = ((), ("stories",)) * 4
    found = await _warnings(tmp_path, ListedApi(accounts=2, posts=4), lambda d, _: {"fetched_at": f"at {d}"}, syncs)
    assert [len(warned) for warned in found] == [0, 0, 0, 0, 0, 0, 1, 0]
