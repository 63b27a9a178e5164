"""Rule B: an id is text or an exact integer. Anything else is no id, and its record is kept in quarantine."""

import re

import pytest

from tests.api.faults import Action
from tests.nights.conftest import Operator


def with_ids(number: str) -> Action:
    """Return a page with ids that a proxy has encoded again, all as this number."""
    return Action("page", change=lambda page: re.sub(b'"id": "[^"]*"', f'"id": {number}'.encode(), page))


# The last one is an id, of several items: the scan decides nothing.
@pytest.mark.parametrize(
    ("number", "is_id"), [("1.78414e+16", False), ("17841400000000001.0", False), ("17841400000000000", True)]
)
def test_wrong_numbers_remove_nothing_and_are_findings(operator: Operator, number: str, *, is_id: bool) -> None:
    service = operator.connect(accounts=1, posts=12)
    # They are equal but for their times.
    service.change_posts = lambda posts: [
        {**post, "timestamp": f"2026-01-{day:02}T00:00:00Z"} for day, post in enumerate(posts, 1)
    ]
    operator.night()
    service.fault = lambda asked: with_ids(number) if asked.is_posts(1) else None
    for _ in range(2):
        operator.night(code=3)
    assert (operator.count("quarantine") > 0) is not is_id
    assert operator.count("media") == operator.count("media", "removed_at IS NULL") == 12 + is_id


@pytest.mark.parametrize("path", ["uid", "meta.id"])
def test_ids_that_are_equal_once_they_are_repaired_are_none(operator: Operator, path: str) -> None:
    (operator.folder / "gramhouse.toml").write_text(f'[mapping]\nmedia_id = ["$.{path}"]\n')
    # Halves of two emojis, which both become the replacement character.
    halves = ("a\\ud83c", "a\\ud83d", "whole")
    items = ", ".join(f'{{"uid": "{one}", "meta": {{"id": "{one}"}}}}' for one in halves)
    page = Action("raw", body=f'{{"items": [{items}], "next_cursor": null}}'.encode())
    operator.connect(accounts=1, fault=lambda asked: page if asked.is_posts(1) else None)
    operator.run("sync", code=None)
    assert operator.ask("SELECT media_id FROM media") == [("whole",)]
    assert operator.count("quarantine") == 1
