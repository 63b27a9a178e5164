"""What a backfill would do now, read so that no writer is in the way."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from connectors.source.endpoints import account_scope
from connectors.warehouse.runs.selection import choose
from connectors.warehouse.snapshot.reader import open_snapshot
from flows.config.settings import Settings
from flows.reporting.cooldowns import Cooldowns, read_cooldowns
from flows.reporting.words import count
from models.selection import ChosenAccount, Selection


@dataclass(frozen=True, slots=True)
class Forecast:
    """The accounts that a backfill would scan now, and those it would not: for an expired token, or for a cooldown."""

    scanned: tuple[ChosenAccount, ...] = ()
    expired: tuple[ChosenAccount, ...] = ()
    cooling: tuple[tuple[ChosenAccount, datetime], ...] = ()
    cooldowns: Cooldowns = field(default_factory=Cooldowns)

    @property
    def requests(self) -> int:
        """About how many requests it would make."""
        return sum(account.pages for account in self.scanned)


def forecast(settings: Settings, selection: Selection, *, now: datetime) -> Forecast:
    """Return what a backfill would do; a cooldown that ends within GRAMHOUSE_MAX_WAIT seconds is waited for.

    Raises SelectionError, SnapshotMissing and WarehouseUnusable.
    """
    with open_snapshot(settings.snapshot_file()) as snapshot:

        def ask(query: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
            return snapshot.ask(query, parameters).rows

        accounts = choose(ask, "main", selection, settings.page_size, scan_expired=settings.scan_expired)
        after = now + _budget(settings.max_wait, now)
        known = read_cooldowns(settings, "gramhouse backfill --dry-run", snapshot, now=now)
    waits = {one.account_id: known.until.get(account_scope(one.account_id)) for one in accounts}
    cooldowns = {account_id: until for account_id, until in waits.items() if until is not None and until > after}
    skipped = {account.account_id for account in accounts if account.expired and not settings.scan_expired}
    return Forecast(
        scanned=tuple(one for one in accounts if one.account_id not in skipped | cooldowns.keys()),
        expired=tuple(one for one in accounts if one.account_id in skipped),
        cooling=tuple(
            (one, cooldowns[one.account_id])
            for one in accounts
            if one.account_id in cooldowns and one.account_id not in skipped
        ),
        cooldowns=known,
    )


def _budget(seconds: float, now: datetime) -> timedelta:
    latest = datetime.max.replace(tzinfo=now.tzinfo) - now
    return timedelta(seconds=min(seconds, latest.total_seconds() - 1))


def described(found: Forecast) -> str:
    """Describe what a backfill would do, in one line."""
    scans = sum(len(account.surfaces) for account in found.scanned)
    parts = ["Nothing would be scanned"]
    if scans:
        accounts, requests = count(len(found.scanned), "account"), count(found.requests, "request")
        parts = [f"{count(scans, 'scan')} of {accounts} would run, about {requests}"]
    if found.expired:
        parts.append(f"{count(len(found.expired), 'account')} with an expired token would be skipped")
    if found.cooling:
        until = min(until for _, until in found.cooling)
        accounts = count(len(found.cooling), "account")
        parts.append(f"{accounts} in a cooldown would be deferred, the first until {until:%Y-%m-%d %H:%M:%S} UTC")
    return f"{'; '.join(parts)}.{found.cooldowns.caveat}"
