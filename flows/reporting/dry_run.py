"""What a backfill would do now, estimated without blocking a writer or waiting for one."""

from dataclasses import dataclass, field
from datetime import datetime

from connectors.source.endpoints import account_scope
from connectors.warehouse.runs.selection import choose
from connectors.warehouse.snapshot.reader import open_snapshot
from flows.config.settings import Settings
from flows.reporting.cooldowns import Cooldowns, read_cooldowns
from flows.reporting.words import count
from models.selection import ChosenAccount, Selection


@dataclass(frozen=True, slots=True)
class Forecast:
    """The accounts that a backfill would scan now, and those it would not: with an expired token, or in a cooldown."""

    scanned: tuple[ChosenAccount, ...] = ()
    expired: tuple[ChosenAccount, ...] = ()
    cooling: tuple[tuple[ChosenAccount, datetime], ...] = ()
    cooldowns: Cooldowns = field(default_factory=Cooldowns)

    @property
    def requests(self) -> int:
        """Return the estimated number of requests."""
        return sum(account.pages for account in self.scanned)


def forecast(settings: Settings, selection: Selection, *, now: datetime) -> Forecast:
    """Return what a backfill would do. It would wait for cooldowns that end within GRAMHOUSE_MAX_WAIT seconds.

    Raises SelectionError, SnapshotMissing and WarehouseUnusable.
    """
    with open_snapshot(settings.snapshot_file()) as snapshot:
        accounts = choose(
            lambda query, values: snapshot.query(query, values).rows,
            "",
            selection,
            settings.page_size,
            scan_expired=settings.scan_expired,
        )
        cooldowns = read_cooldowns(settings, "gramhouse backfill --dry-run", snapshot, now=now)
    scanned, expired, cooling = list[ChosenAccount](), list[ChosenAccount](), list[tuple[ChosenAccount, datetime]]()
    for account in accounts:
        until = cooldowns.until.get(account_scope(account.account_id))
        if account.expired and not settings.scan_expired:
            expired.append(account)
        elif until is not None and (until - now).total_seconds() > settings.max_wait:
            cooling.append((account, until))
        else:
            scanned.append(account)
    return Forecast(tuple(scanned), tuple(expired), tuple(cooling), cooldowns)


def described(found: Forecast) -> str:
    """Return a description, in one line, of what a backfill would do."""
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
