"""The tables of a time: on each day they are what the snapshot of that day showed."""

from pathlib import Path
from typing import Any

import pytest

from tests.warehouse.days import BEN, POSTS, STORIES, Days, Item, account, ask, at, opened_days


def post(number: int, likes: int, **more: object) -> Item:
    return {
        "id": str(number),
        "like_count": likes,
        "view_count": 10 * likes,
        "caption": "first",
        "media_type": "IMAGE",
        **more,
    }


def play(days: Days, folder: Path, **given: Any) -> dict[float, Path]:  # noqa: ANN401 - of Days.publish
    """Scan once a day, and publish after each; return the snapshots by hour."""
    nights = [
        ([account(), account(BEN, name="ben")], [post(1, 5), post(2, 6, caption="x")], [{"id": "s"}]),
        ([account(name="anja"), account(BEN, name="ben")], [post(1, 7), post(2, 6, caption="y")], []),
        ([account(name="anja", status="token_expired")], [post(1, 7)], [{"id": "s2"}]),
        ([account(name="anja")], [post(1, 4, caption="edited"), post(3, 1, tags=["a"])], [{"id": "s2"}]),
        ([account(name="anja"), account(BEN, name="ben")], [post(2, 8, caption="y"), {"id": "3"}], []),
    ]
    saved = {}
    for night, (accounts, posts, stories) in enumerate(nights):
        hour = 24.0 * night
        days.catalogue(hour, accounts)
        days.scan(POSTS, hour + 1, posts)
        days.scan(STORIES, hour + 2, stories)
        saved[hour + 3] = days.publish(folder / f"{night}.duckdb", hour=hour + 3, **given)
    saved[99] = days.publish(folder / "last.duckdb", hour=99, **given)
    return saved


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[float, Path]:
    folder = tmp_path_factory.mktemp("nights")
    with opened_days(folder) as days:
        return play(days, folder)


@pytest.mark.parametrize("night", range(5))
def test_a_time_shows_the_items_that_its_snapshot_showed(saved: dict[float, Path], night: int) -> None:
    hour, last = 24.0 * night + 3, saved[99]
    # What a scan missed, and a later one confirmed as removed, was not listed any more.
    query = f"SELECT media_id FROM item_events WHERE event = 'removed' AND changed_at <= '{at(hour)}'"
    gone = {media_id for (media_id,) in ask(last, query)} if night < 4 else set()
    columns = "surface, media_id, ig_username, kind, caption, like_count, view_count, first_seen_at, content_changed_at"
    of_now = columns.replace("ig_username", "'anja' AS ig_username")
    shown = ask(saved[hour], f"SELECT {of_now} FROM media WHERE removed_at IS NULL ORDER BY ALL")
    assert ask(last, f"SELECT {columns} FROM media_at('{at(hour)}') ORDER BY ALL") == [
        row for row in shown if row[1] not in gone
    ]


@pytest.mark.parametrize("night", range(5))
def test_a_time_shows_the_accounts_that_its_snapshot_showed(saved: dict[float, Path], night: int) -> None:
    hour = 24.0 * night + 3
    columns = "account_id, ig_username, public_id, status, token_expired_since, first_seen_at"
    shown = ask(
        saved[hour], f"SELECT {columns} FROM accounts WHERE removed_at IS NULL AND missing_since IS NULL ORDER BY ALL"
    )
    assert ask(saved[99], f"SELECT {columns} FROM accounts_at('{at(hour)}') ORDER BY ALL") == shown


def test_what_a_snapshot_hides_is_hidden_at_every_time(tmp_path: Path) -> None:
    hidden = {"hide": ["ig_username", "caption", "like_count"], "salt": "salt"}
    with opened_days(tmp_path) as days:
        [*_, snapshot] = play(days, tmp_path, **hidden).values()
    shown = "count(caption), count(like_count), count(permalink), bool_and(ig_username = account_id), count(view_count)"
    assert ask(snapshot, f"SELECT {shown} FROM media_at(now())") == [(0, 0, 0, True, 2)]
    assert "anja" not in repr(ask(snapshot, "FROM media_at(now()), accounts_at(now())"))
