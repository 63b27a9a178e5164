"""Compares a snapshot with what the API lists, without any knowledge of how scans decide."""

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

from tests.api.server import Api
from tests.harness.oracle.reading import COUNTS, TEXTS, canonical, id_of, published

Ask = Callable[[str], list[tuple[Any, ...]]]
_COLUMNS = (*TEXTS, *COUNTS)


def differences(ask: Ask, api: Api, *, without: Collection[str] = ()) -> list[str]:
    """Return how a snapshot differs from what the API lists today: accounts' status, and the items of the active ones.

    Posts below the depth of a recent scan, as stated in `freshness`, may differ. Accounts and items whose removal
    awaits confirmation count as removed. The snapshot has nothing of the accounts `without`.
    """
    accounts = {one["id"]: one["status"] for one in api.list_accounts() if one["id"] not in without}
    found: dict[Any, Any] = dict(
        ask("SELECT account_id, status FROM accounts WHERE removed_at IS NULL AND missing_since IS NULL")
    )
    depths: dict[str, datetime] = dict(
        ask("SELECT account_id, covered_from FROM freshness WHERE surface = 'posts' AND recent_at IS NOT NULL")
    )

    def is_compared(account: str, surface: str, at: datetime | None) -> bool:
        depth = depths.get(account) if surface == "posts" else None
        return accounts.get(account) == "active" and (depth is None or (at is not None and at > depth))

    columns = f"account_id, surface, media_id, published_at, {', '.join(_COLUMNS)}"
    listed_now = "SEMI JOIN (FROM core.media WHERE missed_at IS NULL) AS m USING (account_id, surface, media_id)"
    rows = ask(f"SELECT {columns} FROM media {listed_now} WHERE removed_at IS NULL")
    held = {row[:3]: row[4:] for row in rows if is_compared(row[0], row[1], row[3])}
    expected = {
        (account, surface, str(id_of(item))): tuple(canonical(item, name) for name in _COLUMNS)
        for account, surface, item in api.list_media()
        if is_compared(account, surface, published(item))
    }
    return [
        f"{key}: {shown.get(key)}, listed as {listed.get(key)}"
        for shown, listed in ((found, accounts), (held, expected))
        for key in sorted(shown.keys() | listed.keys())
        if shown.get(key) != listed.get(key)
    ]


def assert_matches_api(ask: Ask, api: Api) -> None:
    """Assert that a snapshot has the accounts and items that the API lists today."""
    assert differences(ask, api) == []
