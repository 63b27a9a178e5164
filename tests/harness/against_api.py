"""Compares a snapshot with what the API lists, without any knowledge of how scans decide."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from tests.api.server import Api
from tests.harness.oracle.reading import COUNTS, TEXTS, Item, canonical, id_of, published
from tests.harness.oracle.tables import Key

Ask = Callable[[str], list[tuple[Any, ...]]]
_COLUMNS = (*TEXTS, *COUNTS)


def by_key(listed: Collection[tuple[str, str, Item]]) -> dict[Key, Item]:
    """Return items, given with account and surface, by their keys."""
    return {(account, surface, str(id_of(item))): item for account, surface, item in listed}


def differences(
    ask: Ask,
    accounts: Mapping[str, str],
    listed: Mapping[Key, Item],
) -> list[str]:
    """Return how a snapshot differs from what the API lists: accounts' status, and the items of the active ones.

    Posts below the depth of a recent scan, as stated in `freshness`, may differ. Accounts and items whose removal
    awaits confirmation count as removed.
    """
    found: dict[str, str] = dict(
        ask("SELECT account_id, status FROM accounts WHERE removed_at IS NULL AND missing_since IS NULL")
    )
    wrong = [f"account {one}: {found.get(one)}, listed as {accounts.get(one)}" for one in found.keys() | accounts.keys()
             if found.get(one) != accounts.get(one)]  # fmt: skip
    depths: dict[str, datetime] = dict(
        ask("SELECT account_id, covered_from FROM freshness WHERE surface = 'posts' AND recent_at IS NOT NULL")
    )

    def is_covered(key: Key, at: datetime | None) -> bool:
        depth = depths.get(key[0]) if key[1] == "posts" else None
        return depth is None or (at is not None and at > depth)

    columns = f"account_id, surface, media_id, published_at, {', '.join(_COLUMNS)}"
    listed_now = "SEMI JOIN (FROM core.media WHERE missed_at IS NULL) AS m USING (account_id, surface, media_id)"
    rows = ask(f"SELECT {columns} FROM media {listed_now} WHERE removed_at IS NULL")
    held = {row[:3]: row[4:] for row in rows if accounts.get(row[0]) == "active" and is_covered(row[:3], row[3])}
    expected = {
        key: tuple(None if (value := canonical(item, name)) == "" else value for name in _COLUMNS)
        for key, item in listed.items()
        if accounts.get(key[0]) == "active" and is_covered(key, published(item))
    }
    return wrong + [
        f"{key}: {held.get(key)}, listed as {expected.get(key)}"
        for key in sorted(expected.keys() | held.keys())
        if held.get(key) != expected.get(key)
    ]


def assert_matches_api(ask: Ask, api: Api) -> None:
    """Assert that a snapshot has the accounts and items that the API lists today."""
    accounts = {account["id"]: account["status"] for account in api.list_accounts()}
    assert differences(ask, accounts, by_key(api.list_media())) == []
