import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from connectors.sandbox.data.catalogue import Catalogue
from connectors.sandbox.data.population import username
from connectors.sandbox.data.posts import Timeline
from connectors.sandbox.settings import SandboxSettings
from tests.sandbox.asgi_client import Asker

Build = Callable[..., Asker]
Items = dict[tuple[str, str, str], dict[str, Any]]


def everything(settings: SandboxSettings, day: int) -> Items:
    truth = Catalogue(settings).truth(day)
    return {(a.id, s, json.loads(item)["id"]): json.loads(item) for a, s, item in truth}


def statuses(settings: SandboxSettings, day: int) -> dict[str, str]:
    return {a.id: a.status for a in Catalogue(settings).accounts(day)}


GRAPH = SandboxSettings(shape="graph")


def test_equal_seeds_serve_equal_bytes_and_others_do_not() -> None:
    assert everything(GRAPH, 3) == everything(GRAPH, 3)
    assert not everything(GRAPH, 3).keys() & everything(SandboxSettings(shape="graph", seed=8), 3).keys()


def test_accounts_match_the_contract() -> None:
    seen = set()
    accounts = list(Catalogue(SandboxSettings(accounts=3000)).accounts(9))
    for account in accounts:
        assert str(UUID(account.id)) == account.id
        assert UUID(account.id).version == 4
        assert re.fullmatch(r"[A-Za-z0-9._]{1,30}", account.ig_username)
        assert re.fullmatch(r"[A-Za-z0-9]{12,16}", account.public_id)
        assert account.status in {"active", "token_expired"}
        seen |= {account.id, account.ig_username, account.public_id}
    assert len(seen) == 3 * len(accounts) > 6000


def test_usernames_never_repeat_nor_outgrow_the_contract() -> None:
    names = {username(position) for position in range(0, 1 << 21, 7)}
    assert len(names) == len(range(0, 1 << 21, 7))
    assert all(re.fullmatch(r"[A-Za-z0-9._]{1,30}", name) for name in names)


def test_an_account_is_found_by_its_id() -> None:
    catalogue = Catalogue(SandboxSettings(accounts=1000))
    for account in catalogue.accounts(0):
        assert catalogue.find(account.id, 0) == account
        assert catalogue.find(account.id.upper(), 0) == account
    assert catalogue.find("0b6f7c1e-52a4-4d1b-9a53-2f1d3f0c8e11", 0) is None


@pytest.mark.parametrize("shape", ["graph", "camel", "flat", "mixed"])
def test_item_ids_are_17_digits_and_unique_over_everything(shape: str) -> None:
    ids: list[str] = []
    for item in everything(SandboxSettings(shape=shape), 5).values():
        ids.append(item["id"])
        children = item.get("children", [])
        ids += [child["id"] for child in (children["data"] if isinstance(children, dict) else children)]
    assert all(re.fullmatch(r"[0-9]{17}", i) for i in ids)
    assert len(set(ids)) == len(ids)


def test_the_shapes() -> None:
    by_name = {name: everything(SandboxSettings(shape=name), 0) for name in ("graph", "camel", "flat", "mixed")}
    graph, camel, flat = (list(by_name[name].values()) for name in ("graph", "camel", "flat"))
    assert {item["media_type"] for item in graph} == {"IMAGE", "VIDEO", "CAROUSEL_ALBUM"}
    assert {item["media_product_type"] for item in graph} == {"FEED", "REELS", "STORY"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0000", item["timestamp"]) for item in graph)
    assert all(("thumbnail_url" in item) == (item["media_type"] == "VIDEO") for item in graph)
    assert all(("children" in item) == (item["media_type"] == "CAROUSEL_ALBUM") for item in graph)
    assert all(item["publishedAt"].endswith("Z") and item["metrics"]["likes"] >= 0 for item in camel)
    assert all(isinstance(item["taken_at"], int) and item["like_count"].isdigit() for item in flat)
    assert {tuple(sorted(item)) for item in by_name["mixed"].values()} <= {
        tuple(sorted(item)) for item in (*graph, *camel, *flat)
    }
    captions = [item.get("caption", "") for item in graph]
    assert any('"' in c for c in captions)
    assert any("\n" in c for c in captions)
    assert any("é" in c for c in captions)


def test_posts_are_made_edited_liked_and_deleted_from_day_to_day() -> None:
    today, tomorrow = (
        {key: item for key, item in everything(GRAPH, day).items() if key[1] == "posts"} for day in (0, 1)
    )
    both = today.keys() & tomorrow.keys()
    stay = statuses(GRAPH, 0).keys() & statuses(GRAPH, 1).keys()
    assert any(key[0] in stay for key in tomorrow.keys() - today.keys())
    assert any(key[0] in stay for key in today.keys() - tomorrow.keys())
    edited = [key for key in both if today[key].get("caption") != tomorrow[key].get("caption")]
    assert 0 < len(edited) < len(both) / 20
    grown = [key for key in both if tomorrow[key]["like_count"] > today[key]["like_count"]]
    assert 0 < len(grown) < len(both) / 2
    for key in both:
        before, after = today[key], tomorrow[key]
        assert after["like_count"] >= before["like_count"]
        assert after["comments_count"] >= before["comments_count"]
        assert after["media_url"] != before["media_url"]
        assert after["media_url"].partition("?")[0] == before["media_url"].partition("?")[0]
        assert after["timestamp"] == before["timestamp"]


def test_stories_live_one_day() -> None:
    days = [{key for key in everything(GRAPH, day) if key[1] == "stories"} for day in range(4)]
    assert all(days)
    assert not any(one & other for one, other in pairwise(days))


@pytest.mark.parametrize("surface", ["posts", "stories"])
def test_items_are_newest_first_and_never_from_the_future(surface: str) -> None:
    catalogue = Catalogue(SandboxSettings(shape="flat", day=20))
    today = 1740794400 + 20 * 86_400
    for account in catalogue.accounts(20):
        times = [json.loads(item)["taken_at"] for item in catalogue.items(account, surface, 20)]
        assert times == sorted(times, reverse=True)
        assert all(time < today for time in times)
        if surface == "stories":
            assert all(today - time <= 86_400 for time in times)


def test_accounts_join_leave_expire_and_return() -> None:
    settings = SandboxSettings(accounts=120)
    days = [statuses(settings, day) for day in range(12)]
    assert len(days[0]) == 120
    assert all(after.keys() - before.keys() for before, after in pairwise(days))
    assert any(before.keys() - after.keys() for before, after in pairwise(days))
    for account_id in set().union(*days):
        seen = "".join("x" if account_id in day else " " for day in days)
        assert " " not in seen.strip(), "nobody comes back under an old id"
    lives = [[day.get(account_id) for day in days] for account_id in days[0]]
    story = ["active", "token_expired", "active"]
    assert any([s for n, s in enumerate(life) if not n or s != life[n - 1]][:3] == story for life in lives)


def test_change_can_be_turned_off() -> None:
    settings = SandboxSettings(change_every=0)
    assert statuses(settings, 0) == statuses(settings, 9)
    assert set(statuses(settings, 9).values()) == {"active"}


def test_sizes_follow_the_settings() -> None:
    catalogue = Catalogue(SandboxSettings(accounts=400, posts=60))
    accounts = list(catalogue.accounts(0))
    counts = [sum(1 for _ in catalogue.items(account, "posts", 0)) for account in accounts]
    assert counts[0] == 60
    assert 50 <= sum(counts) / 400 <= 70


@pytest.mark.parametrize("rate", [2, 3, 7, 20])
def test_a_timeline_returns_the_day_of_every_post(rate: int) -> None:
    timeline = Timeline(at_first=5, per_ten_days=rate, phase=4, gap=100, followers=1)
    for day in range(1, 40):
        for sequence in range(timeline.total(day - 1), timeline.total(day)):
            assert timeline.day_of(sequence) == day


@pytest.mark.parametrize(
    "wrong", [{"accounts": -1}, {"posts": 10**8}, {"shape": "round"}, {"day": -1}, {"log_size": -1}]
)
def test_invalid_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        SandboxSettings(**wrong)


def test_an_account_is_found_from_its_first_day_until_it_leaves(build: Build) -> None:
    asker = build(accounts=120)
    today = statuses(asker.sandbox.settings, 0)
    tomorrow = statuses(asker.sandbox.settings, 1)
    leaver = next(iter(today.keys() - tomorrow.keys()))
    joiner = next(iter(tomorrow.keys() - today.keys()))
    assert (asker.media(leaver).status, asker.media(joiner).status) == (200, 403)
    asker.sandbox.day = 1
    assert (asker.media(leaver).status, asker.media(joiner).status) == (404, 200)
