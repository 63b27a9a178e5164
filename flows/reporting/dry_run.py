"""What a backfill would do now, estimated from the snapshot."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.queries.selection import choose_accounts
from flows.config.settings import Settings
from flows.reporting.words import count, join, moment
from models.selection import Selection

Record = dict[str, Any]

_COOLDOWNS = "SELECT account_id, max(resume_after) FROM freshness WHERE outcome = 'deferred' GROUP BY account_id"


def forecast(settings: Settings, selection: Selection, *, now: datetime) -> list[Record]:
    """Return the accounts that a backfill would scan, and those that it would not, with a `reason`.

    It would wait for cooldowns that end within GRAMHOUSE_MAX_WAIT seconds. `resume_after` is when a later one ends,
    `pages` the estimated number of requests. Raises SelectionError, SnapshotMissing and WarehouseUnusable.
    """
    with open_snapshot(settings.snapshot_file()) as snapshot:
        accounts = choose_accounts(snapshot.db, selection, settings.page_size, scan_expired=settings.scan_expired)
        cooldowns = dict(snapshot.query(_COOLDOWNS).rows)
    found = []
    for account in accounts:
        until, reason = cooldowns.get(account.account_id), None
        if account.expired and not settings.scan_expired:
            reason = "token_expired"
        elif until is not None and (until - now).total_seconds() > settings.max_wait:
            reason = "cooldown"
        found.append(asdict(account) | {"reason": reason, "resume_after": until if reason == "cooldown" else None})
    return found


def requests(found: Sequence[Record]) -> int:
    """Return the estimated number of requests."""
    return sum(row["pages"] for row in found if row["reason"] is None)


def describe_forecast(found: Sequence[Record]) -> str:
    """Return a description, in one line, of what a backfill would do."""
    scanned, expired, cooling = (
        [row for row in found if row["reason"] == reason] for reason in (None, "token_expired", "cooldown")
    )
    scans = count(sum(len(row["surfaces"]) for row in scanned), "scan")
    would = f"{scans} of {count(len(scanned), 'account')} would run, about {count(requests(found), 'request')}"
    first = (
        f", the first until {moment(min(row['resume_after'] for row in cooling), seconds=True)} UTC" if cooling else ""
    )
    parts = (
        would if scanned else "Nothing would be scanned",
        expired and f"{count(len(expired), 'account')} with an expired token would be skipped",
        cooling and f"{count(len(cooling), 'account')} in a cooldown would be deferred{first}",
    )
    return f"{join('; ', parts)}."
