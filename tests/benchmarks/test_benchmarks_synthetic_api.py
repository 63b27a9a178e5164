"""The synthetic API serves the documented data; every benchmark result depends on it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.api.synthetic_api import PAGE_SIZE, Change, Style, SyntheticApi, account_id


def scan(api: SyntheticApi, account: int) -> Iterator[dict[str, Any]]:
    cursor: str | None = None
    while True:
        body = api.media(account, cursor)
        assert body is not None
        page = json.loads(body)
        assert len(page["items"]) <= PAGE_SIZE
        yield from page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return


def likes(api: SyntheticApi) -> dict[str, int]:
    return {item["id"]: item["like_count"] for n in range(api.accounts) for item in scan(api, n)}


@pytest.mark.parametrize("posts", [0, 1, 49, 50, 51, 120])
def test_a_scan_returns_every_post_once(posts: int) -> None:
    ids = [item["id"] for item in scan(SyntheticApi(3, posts), 2)]

    assert len(ids) == len(set(ids)) == posts


def test_the_catalogue_lists_every_account_once() -> None:
    api = SyntheticApi(121, 1)
    cursor: str | None = None
    listed: list[str] = []
    while body := api.catalogue(cursor):
        page = json.loads(body)
        listed += [item["id"] for item in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            break

    assert listed == [account_id(number) for number in range(121)]


def test_without_accounts_the_catalogue_is_one_empty_page() -> None:
    assert json.loads(SyntheticApi(0, 0).catalogue(None) or b"") == {"items": [], "next_cursor": None}


def test_a_page_has_the_same_bytes_in_every_process() -> None:
    assert SyntheticApi(5, 200).media(3, "p50") == SyntheticApi(5, 200).media(3, "p50")


@pytest.mark.parametrize("day", [1, 2, 3])
def test_each_day_changes_one_percent_and_adds_two_percent(day: int) -> None:
    before, after = likes(SyntheticApi(10, 200, day - 1)), likes(SyntheticApi(10, 200, day))

    initial_ids = likes(SyntheticApi(10, 200)).keys()

    assert sum(after[media_id] != before[media_id] for media_id in initial_ids) == 20
    assert len(after) - len(before) == 40
    assert before.keys() < after.keys()


def test_small_accounts_together_get_two_percent() -> None:
    api = SyntheticApi(1000, 20, 1)

    assert sum(map(api.post_count, range(1000))) == 1000 * 20 * 1.02


@pytest.mark.parametrize("cursor", ["", "p", "px", "50", "p999"])
def test_an_unknown_cursor_is_refused(cursor: str) -> None:
    assert SyntheticApi(2, 60).media(1, cursor) is None


def test_an_unlisted_account_does_not_exist() -> None:
    assert SyntheticApi(2, 60).media(2, None) is None


def all_items(api: SyntheticApi) -> list[dict[str, Any]]:
    return [item for account in range(api.accounts) for item in scan(api, account)]


def test_spaced_items_are_larger_and_a_third_of_them_have_children() -> None:
    compact, spaced = SyntheticApi(10, 200), SyntheticApi(10, 200, style=Style.SPACED)
    items = all_items(spaced)

    assert sum("children" in item for item in items) == pytest.approx(len(items) / 3, rel=0.05)
    assert len(spaced.media(1, None) or b"") > 1.1 * len(compact.media(1, None) or b"")
    assert b'"id": ' in (spaced.media(1, None) or b"")
    assert b'"id": ' not in (compact.media(1, None) or b"")


@pytest.mark.parametrize(("change", "differs"), [(Change.URLS, "media_url"), (Change.COUNTS, "like_count")])
def test_a_day_changes_one_field_of_every_item_and_adds_none(change: Change, differs: str) -> None:
    before = all_items(SyntheticApi(5, 120, 1, change=change))
    after = all_items(SyntheticApi(5, 120, 2, change=change))

    assert len(before) == len(after) == 600
    for old, new in zip(before, after, strict=True):
        assert {key for key in old if old[key] != new[key]} == {differs}


def test_no_two_items_share_a_key_of_an_object_whose_keys_are_data() -> None:
    items = all_items(SyntheticApi(3, 60, style=Style.KEYS))
    keys = [key for item in items for key in item["reactions"]]
    assert len(keys) == len(set(keys)) == 50 * len(items)
