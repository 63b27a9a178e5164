"""The made-up service is what it says it is: otherwise every figure measured on it would be of something else."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.pages import PAGE, Change, Service, Style, account_id


def scan(service: Service, account: int) -> Iterator[dict[str, Any]]:
    cursor: str | None = None
    while True:
        body = service.media(account, cursor)
        assert body is not None
        page = json.loads(body)
        assert len(page["items"]) <= PAGE
        yield from page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return


def likes(service: Service) -> dict[str, int]:
    return {item["id"]: item["like_count"] for n in range(service.accounts) for item in scan(service, n)}


@pytest.mark.parametrize("posts", [0, 1, 49, 50, 51, 120])
def test_a_scan_shows_every_post_once(posts: int) -> None:
    ids = [item["id"] for item in scan(Service(3, posts), 2)]

    assert len(ids) == len(set(ids)) == posts


def test_the_catalogue_lists_every_account_once() -> None:
    service = Service(121, 1)
    cursor: str | None = None
    listed: list[str] = []
    while body := service.catalogue(cursor):
        page = json.loads(body)
        listed += [item["id"] for item in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            break

    assert listed == [account_id(number) for number in range(121)]


def test_a_service_without_accounts_says_so() -> None:
    assert json.loads(Service(0, 0).catalogue(None) or b"") == {"items": [], "next_cursor": None}


def test_the_same_page_is_the_same_bytes_from_any_process() -> None:
    assert Service(5, 200).media(3, "p50") == Service(5, 200).media(3, "p50")


@pytest.mark.parametrize("day", [1, 2, 3])
def test_each_day_changes_one_in_a_hundred_and_adds_two(day: int) -> None:
    before, after = likes(Service(10, 200, day - 1)), likes(Service(10, 200, day))

    at_first = likes(Service(10, 200)).keys()

    assert sum(after[known] != before[known] for known in at_first) == 20
    assert len(after) - len(before) == 40
    assert before.keys() < after.keys()


def test_small_accounts_get_their_two_in_a_hundred_between_them() -> None:
    service = Service(1000, 20, 1)

    assert sum(map(service.total, range(1000))) == 1000 * 20 * 1.02


@pytest.mark.parametrize("cursor", ["", "p", "px", "50", "p999"])
def test_a_cursor_that_was_never_given_out_is_refused(cursor: str) -> None:
    assert Service(2, 60).media(1, cursor) is None


def test_there_is_no_account_that_is_not_listed() -> None:
    assert Service(2, 60).media(2, None) is None


def everything(service: Service) -> list[dict[str, Any]]:
    return [item for account in range(service.accounts) for item in scan(service, account)]


def test_spaced_items_are_larger_and_a_third_of_them_have_children() -> None:
    compact, spaced = Service(10, 200), Service(10, 200, style=Style.SPACED)
    items = everything(spaced)

    assert sum("children" in item for item in items) == pytest.approx(len(items) / 3, rel=0.05)
    assert len(spaced.media(1, None) or b"") > 1.1 * len(compact.media(1, None) or b"")
    assert b'"id": ' in (spaced.media(1, None) or b"")
    assert b'"id": ' not in (compact.media(1, None) or b"")


@pytest.mark.parametrize(("change", "differs"), [(Change.URLS, "media_url"), (Change.COUNTS, "like_count")])
def test_a_day_changes_one_field_of_every_item_and_adds_none(change: Change, differs: str) -> None:
    before = everything(Service(5, 120, 1, change=change))
    after = everything(Service(5, 120, 2, change=change))

    assert len(before) == len(after) == 600
    for old, new in zip(before, after, strict=True):
        assert {key for key in old if old[key] != new[key]} == {differs}
