import base64
import json
from collections.abc import Callable

import pytest

from connectors.sandbox.http.replies import Resource
from tests.sandbox.asgi_client import ACCOUNTS, Asker

Build = Callable[..., Asker]


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_every_account_and_item_once(asker: Asker, limit: int) -> None:
    catalogue = asker.sandbox.catalogue
    accounts = list(catalogue.accounts(0))
    assert asker.scan(limit=limit) == [json.loads(account.json()) for account in accounts]
    assert len({account.id for account in accounts}) == 40
    for account in accounts[:3]:
        for surface in ("posts", "stories"):
            scanned = asker.scan_media(account.id, surface, limit=limit)
            assert scanned == [json.loads(text) for _, text in catalogue.items(account, surface, 0)]
            assert len({item["id"] for item in scanned}) == len(scanned)


@pytest.mark.parametrize(("accounts", "pages"), [(0, 1), (1, 1), (10, 1), (11, 2), (20, 2)])
def test_only_the_last_page_has_a_null_cursor(build: Build, accounts: int, pages: int) -> None:
    assert len(list(build(accounts=accounts).pages(limit=10))) == pages


@pytest.mark.parametrize("listing", ["accounts", "posts"])
def test_a_day_in_the_middle_of_a_scan_neither_skips_nor_repeats(build: Build, listing: str) -> None:
    asker = build(accounts=200, posts=300)
    path, query = (
        (ACCOUNTS, {}) if listing == "accounts" else (f"{ACCOUNTS}/{asker.account_id()}/media", {"surface": "posts"})
    )
    before = {one["id"] for one in asker.scan(path, limit=50, **query)}
    scanned: list[str] = []
    for page in asker.pages(path, limit=10, **query):
        scanned += [one["id"] for one in page["items"]]
        asker.sandbox.day += 1
    after = {one["id"] for one in asker.scan(path, limit=50, **query)}
    assert asker.sandbox.day >= 20
    assert len(set(scanned)) == len(scanned)
    assert before & after <= set(scanned)
    assert listing == "accounts" or set(scanned) <= before
    assert after - before, "some were added meanwhile"
    assert before - after, "some were removed meanwhile"


def test_cursors_are_bound_to_their_resource(asker: Asker, build: Build) -> None:
    first, second = asker.account_id(0), asker.account_id(1)
    posts = asker.media(first, limit=1).json()["next_cursor"]
    accounts = asker.get(limit=1).json()["next_cursor"]
    assert asker.media(first, cursor=posts).status == 200
    refused = [
        asker.media(second, cursor=posts),
        asker.media(first, "stories", cursor=posts),
        asker.media(first, cursor=accounts),
        asker.get(cursor=posts),
        build(seed=8).get(cursor=accounts),
    ]
    assert {(a.status, a.code) for a in refused} == {(422, "api_invalid_cursor")}


def test_forged_and_altered_cursors_are_refused(asker: Asker) -> None:
    cursor = asker.get(limit=1).json()["next_cursor"]
    sealed = bytearray(base64.urlsafe_b64decode(cursor))
    sealed[-1] ^= 1
    forged = base64.urlsafe_b64encode(bytes(sealed)).decode()
    broken = ["", "x", "é" * 40, forged, cursor[:-4], f"{cursor}AAAA", f" {cursor}", cursor.lower(), "c" * 1025]
    for wrong in broken:
        assert asker.get(cursor=wrong).code == "api_invalid_cursor", wrong
    assert asker.get(cursor=cursor).status == 200


@pytest.mark.parametrize(("accounts", "posts"), [(100_000, 20), (1, 1_000_000)])
def test_large_catalogues_can_be_paged_from_any_position(build: Build, accounts: int, posts: int) -> None:
    asker = build(accounts=accounts, posts=posts, change_every=0)
    assert len(asker.get(limit=50).json()["items"]) == min(accounts, 50)
    assert len(asker.media(asker.account_id(accounts - 1), limit=1).json()["items"]) == 1
    last = asker.sandbox.cursors.issue(Resource(0, "posts"), 20)
    page = asker.media(asker.account_id(), limit=20, cursor=last).json()
    assert (len(page["items"]), page["next_cursor"]) == (20, None)


def test_cached_pages_follow_the_day(asker: Asker) -> None:
    account_id = asker.account_id()
    pages = [asker.media(account_id).body for asker.sandbox.day in (0, 1, 0, 1)]
    assert pages[:2] == pages[2:]
    assert pages[0] != pages[1]
