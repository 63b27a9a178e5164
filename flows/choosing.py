"""What a backfill would walk, told from the snapshot, so that no writer is in the way."""

from collections.abc import Sequence
from typing import Any

from connectors.warehouse.selection import choose
from connectors.warehouse.snapshot import open_snapshot
from flows.settings import Settings
from flows.words import count
from models.selection import ChosenAccount, Selection


def chosen_now(settings: Settings, selection: Selection) -> tuple[ChosenAccount, ...]:
    """Return the accounts that a backfill would walk; raises SelectionError, SnapshotMissing and WarehouseUnusable."""
    with open_snapshot(settings.snapshot) as snapshot:

        def ask(query: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
            return snapshot.ask(query, parameters).rows

        return choose(ask, "main", selection, settings.page_size, walk_expired=settings.walk_expired)


def foretold(accounts: Sequence[ChosenAccount]) -> str:
    """Say what a backfill would walk, and about how many requests it would take."""
    if not accounts:
        return "Nothing would be walked."
    walks = sum(len(account.surfaces) for account in accounts)
    pages = sum(account.pages for account in accounts)
    expired = sum(account.expired for account in accounts)
    skipped = f"; {count(expired, 'account')} with an expired token would be skipped" if expired else ""
    return (
        f"{count(walks, 'walk')} of {count(len(accounts), 'account')} would be made,"
        f" about {count(pages, 'request')}{skipped}."
    )
