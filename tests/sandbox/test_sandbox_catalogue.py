from itertools import pairwise
from typing import Any

from connectors.sandbox.data.catalogue import Catalogue
from connectors.sandbox.settings import SandboxSettings
from tests.api.server import truth

Items = dict[tuple[str, str, str], dict[str, Any]]
DEFAULT = SandboxSettings()


def everything(settings: SandboxSettings, day: int, surface: str | None = None) -> Items:
    return {
        (account.id, of, item["id"]): item
        for account, of, item in truth(Catalogue(settings), day)
        if surface in (None, of)
    }


def statuses(settings: SandboxSettings, day: int) -> dict[str, str]:
    return {a.id: a.status for a in Catalogue(settings).accounts(day)}


def test_posts_are_made_edited_liked_and_deleted_from_day_to_day() -> None:
    today, tomorrow = (everything(DEFAULT, day, "posts") for day in (0, 1))
    both = today.keys() & tomorrow.keys()
    stay = statuses(DEFAULT, 0).keys() & statuses(DEFAULT, 1).keys()
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
