"""The tables of a time: on each day they are what the snapshot of that day showed."""

from pathlib import Path

import pytest

from tests.warehouse.days import BEN, POSTS, STORIES, Days, Item, account, ask, at, opened_days


def post(number: int, likes: int, caption: str = "first", **more: object) -> Item:
    counts = {"like_count": likes, "view_count": 10 * likes}
    return {"id": str(number), **counts, "caption": caption, "media_type": "IMAGE", **more}


def scan_nights(days: Days, folder: Path, first: Item, then: Item) -> dict[float, Path]:
    """Scan once a day, and publish after each; return the snapshots by hour.

    Items have the fields `first` besides, and when one is edited `then`.
    """
    anna, ben, expired = account(name="anja"), account(BEN, name="ben"), account(name="anja", status="token_expired")
    nights: list[tuple[list[Item], list[Item], list[Item]]] = [
        ([account(), ben], [post(1, 5), post(2, 6, "x")], [{"id": "s"}]),
        ([anna, ben], [post(1, 7), post(2, 6, "y")], []),
        ([expired], [post(1, 7)], [{"id": "s2"}]),
        ([anna], [post(1, 4, "edited"), post(3, 1, tags=["a"])], [{"id": "s2"}]),
        ([anna, ben], [post(2, 8, "y"), {"id": "3"}], []),
    ]
    saved = {}
    for night, (accounts, posts, stories) in enumerate(nights):
        hour = 24.0 * night
        days.run(f"night-{night}", hour)
        days.catalogue(hour, accounts)
        more = [then if one.get("caption") == "edited" else first for one in posts]
        listed = [{**each, **one, "children": [{"id": "c", **each}]} for one, each in zip(posts, more, strict=True)]
        days.scan(POSTS, hour + 1, listed)
        days.scan(STORIES, hour + 2, [{**first, **one} for one in stories])
        saved[hour + 3] = days.publish(folder / f"{night}.duckdb", hour=hour + 3)
    saved[99] = days.publish(folder / "last.duckdb", hour=99)
    return saved


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[float, Path]:
    folder = tmp_path_factory.mktemp("nights")
    with opened_days(folder) as days:
        return scan_nights(days, folder, {}, {})


@pytest.mark.parametrize("night", range(5))
def test_a_time_shows_the_items_and_accounts_that_its_snapshot_showed(saved: dict[float, Path], night: int) -> None:
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
    columns = "account_id, ig_username, public_id, status, token_expired_since, first_seen_at"
    listed = "removed_at IS NULL AND missing_since IS NULL"
    accounts = ask(saved[hour], f"SELECT {columns} FROM accounts WHERE {listed} ORDER BY ALL")
    assert ask(last, f"SELECT {columns} FROM accounts_at('{at(hour)}') ORDER BY ALL") == accounts
