import base64
import json
from collections.abc import Callable

import pytest

from tests.sandbox.asgi_client import ACCOUNTS, Asker

Build = Callable[..., Asker]


def media_truth(asker: Asker, account_id: str, surface: str) -> list[object]:
    catalogue, day = asker.sandbox.catalogue, asker.sandbox.day
    account = catalogue.find(account_id, day)
    assert account is not None
    return [json.loads(item) for item in catalogue.items(account, surface, day)]


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_every_account_once(asker: Asker, limit: int) -> None:
    scanned = asker.scan(limit=limit)
    assert len({a["id"] for a in scanned}) == len(scanned) == 40
    assert scanned == [json.loads(a.json()) for a in asker.sandbox.catalogue.accounts(0)]


@pytest.mark.parametrize("limit", [1, 7, 50])
@pytest.mark.parametrize("surface", ["posts", "stories"])
def test_every_item_once_newest_first(asker: Asker, surface: str, limit: int) -> None:
    for position in range(3):
        account_id = asker.account_id(position)
        scanned = asker.scan_media(account_id, surface, limit=limit)
        assert scanned == media_truth(asker, account_id, surface)
        assert len({item["id"] for item in scanned}) == len(scanned)


@pytest.mark.parametrize(("accounts", "pages"), [(0, 1), (1, 1), (10, 1), (11, 2), (20, 2)])
def test_only_the_last_page_has_a_null_cursor(build: Build, accounts: int, pages: int) -> None:
    assert len(list(build(accounts=accounts).pages(limit=10))) == pages


def test_the_default_limit_is_25(asker: Asker) -> None:
    assert len(asker.get().json()["items"]) == 25


def test_a_day_in_the_middle_of_a_scan_neither_skips_nor_repeats(build: Build) -> None:
    asker = build(accounts=1, posts=300)
    account_id = asker.account_id()
    path = f"{ACCOUNTS}/{account_id}/media"
    before = {item["id"] for item in asker.scan_media(account_id, limit=50)}
    scanned: list[str] = []
    for page in asker.pages(path, surface="posts", limit=7):
        scanned += [item["id"] for item in page["items"]]
        asker.sandbox.day += 1
    after = {item["id"] for item in asker.scan_media(account_id, limit=50)}
    assert asker.sandbox.day > 30
    assert len(set(scanned)) == len(scanned)
    assert before & after <= set(scanned) <= before
    assert after - before, "posts were made meanwhile"
    assert before - after, "posts were deleted meanwhile"


def test_accounts_survive_a_day_in_the_middle_of_a_scan(build: Build) -> None:
    asker = build(accounts=200)
    before = {a["id"] for a in asker.scan(limit=50)}
    scanned: list[str] = []
    for page in asker.pages(limit=20):
        scanned += [a["id"] for a in page["items"]]
        asker.sandbox.day += 1
    after = {a["id"] for a in asker.scan(limit=50)}
    assert len(set(scanned)) == len(scanned)
    assert before & after <= set(scanned)
    assert before - after
    assert after - before


def test_cursors_are_bound_to_their_resource(asker: Asker) -> None:
    first, second = asker.account_id(0), asker.account_id(1)
    posts = asker.media(first, limit=1).json()["next_cursor"]
    accounts = asker.get(limit=1).json()["next_cursor"]
    assert asker.media(first, cursor=posts).status == 200
    refused = [
        asker.media(second, cursor=posts),
        asker.media(first, "stories", cursor=posts),
        asker.media(first, cursor=accounts),
        asker.get(cursor=posts),
    ]
    assert {(a.status, a.code) for a in refused} == {(422, "api_invalid_cursor")}


def test_forged_and_altered_cursors_are_refused(asker: Asker) -> None:
    cursor = asker.get(limit=1).json()["next_cursor"]
    sealed = bytearray(base64.urlsafe_b64decode(cursor))
    sealed[-20] ^= 1
    forged = base64.urlsafe_b64encode(bytes(sealed)).decode()
    broken = ["", "x", "é" * 40, forged, cursor[:-4], f"{cursor}AAAA", f" {cursor}", cursor.lower(), "c" * 1025]
    for wrong in broken:
        assert asker.get(cursor=wrong).code == "api_invalid_cursor", wrong
    assert asker.get(cursor=cursor).status == 200


def test_another_seed_does_not_accept_our_cursors(asker: Asker, build: Build) -> None:
    assert build(seed=8).get(cursor=asker.get(limit=1).json()["next_cursor"]).code == "api_invalid_cursor"


@pytest.mark.parametrize(("accounts", "posts"), [(100_000, 20), (1, 1_000_000)])
def test_large_catalogues_can_be_paged_from_any_position(build: Build, accounts: int, posts: int) -> None:
    asker = build(accounts=accounts, posts=posts, change_every=0)
    assert len(asker.get(limit=50).json()["items"]) == min(accounts, 50)
    assert len(asker.media(asker.account_id(accounts - 1), limit=1).json()["items"]) == 1
    account = next(asker.sandbox.catalogue.accounts(0))
    last = asker.sandbox.catalogue.media_page(0, account, "posts", 20, 20)
    assert (len(last.items), last.anchor) == (20, None)


def test_page_extras(build: Build) -> None:
    asker = build(page_extras=True)
    assert asker.media(asker.account_id()).json().keys() > {"items", "next_cursor"}
    assert asker.get().json().keys() == {"items", "next_cursor"}


def test_cached_pages_are_the_same_and_bounded(build: Build) -> None:
    asker = build(cache_bytes=40_000)
    cold = build(cache_bytes=0)
    for _ in range(2):
        for position in range(20):
            account_id = asker.account_id(position)
            assert asker.media(account_id).body == cold.media(account_id).body
            assert 0 < asker.sandbox.pages.cache.held <= 40_000
    assert cold.sandbox.pages.cache.held == 0
