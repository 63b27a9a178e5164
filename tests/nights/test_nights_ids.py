"""Rule B: an id is text or an exact integer. Anything else is no id, and its record is kept in quarantine."""

import json

import pytest

from tests.nights.conftest import Operator
from tests.nights.service import Page, Service, is_media, items_of


def with_ids(page: Page, number: str) -> bytes:
    """Return the page with ids that a proxy has encoded again, all as this number."""
    return json.dumps(items_of(page, lambda item: {**item, "id": 424242})).replace("424242", number).encode()


# The last one is an id, of several items: the scan decides nothing.
@pytest.mark.parametrize(
    ("number", "is_id"), [("1.78414e+16", False), ("17841400000000001.0", False), ("17841400000000000", True)]
)
def test_wrong_numbers_remove_nothing_and_are_findings(operator: Operator, number: str, *, is_id: bool) -> None:
    service = operator.connect(Service(accounts=1, posts=12))
    operator.night()
    service.respond = lambda request, page: with_ids(page, number) if is_media(request) else None
    for _ in range(2):
        operator.night(code=3)
    assert (operator.count("quarantine") > 0) is not is_id
    assert operator.count("media") == operator.count("media", "removed_at IS NULL") == 12 + is_id


def test_an_integer_of_any_size_is_an_id(operator: Operator) -> None:
    operator.connect(Service(accounts=1)).respond = lambda request, page: (
        with_ids({**page, "items": page["items"][:1]}, "178414000000000000000000000001") if is_media(request) else None
    )
    operator.run("sync")
    assert operator.ask("SELECT media_id FROM media") == [("178414000000000000000000000001",)]


@pytest.mark.parametrize("path", ["uid", "meta.id"])
def test_ids_that_are_equal_once_they_are_repaired_are_none(operator: Operator, path: str) -> None:
    (operator.folder / "gramhouse.toml").write_text(f'[mapping]\nmedia_id = ["$.{path}"]\n')
    # Halves of two emojis, which both become the replacement character.
    halves = ("a\\ud83c", "a\\ud83d", "whole")
    items = ", ".join(f'{{"uid": "{one}", "meta": {{"id": "{one}"}}}}' for one in halves)
    body = f'{{"items": [{items}], "next_cursor": null}}'.encode()
    operator.connect(Service(accounts=1)).respond = lambda request, _: body if is_media(request) else None
    operator.run("sync", code=None)
    assert operator.ask("SELECT media_id FROM media") == [("whole",)]
    assert operator.count("quarantine") == 1
