"""What a backfill would do now, read from the snapshot, so that no writer is in the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from connectors.warehouse.selection import choose
from connectors.warehouse.snapshot import open_snapshot
from flows.settings import Settings
from flows.words import count
from models.selection import ChosenAccount, Selection

# An account is in a cooldown until its last outcome's `resume_after`, unless a later run has scanned it.
_COOLDOWNS = """
SELECT account_id, max(resume_after) FROM (
    SELECT o.account_id, arg_max(o.outcome, r.seq) AS outcome, arg_max(o.resume_after, r.seq) AS resume_after
    FROM run_outcomes AS o JOIN runs AS r USING (run_id)
    WHERE o.resource = 'media' GROUP BY o.account_id, o.surface
)
WHERE outcome = 'deferred' AND resume_after > $1 GROUP BY account_id
"""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The accounts that a backfill would scan now, and those it would not: for an expired token, or for a cooldown."""

    scanned: tuple[ChosenAccount, ...] = ()
    expired: tuple[ChosenAccount, ...] = ()
    cooling: tuple[tuple[ChosenAccount, datetime], ...] = ()

    @property
    def requests(self) -> int:
        """About how many requests it would make."""
        return sum(account.pages for account in self.scanned)


def forecast(settings: Settings, selection: Selection, *, now: datetime) -> Forecast:
    """Return what a backfill would do; a cooldown that ends within GRAMHOUSE_MAX_WAIT seconds is waited for.

    Raises SelectionError, SnapshotMissing and WarehouseUnusable.
    """
    with open_snapshot(settings.snapshot) as snapshot:

        def ask(query: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
            return snapshot.ask(query, parameters).rows

        accounts = choose(ask, "main", selection, settings.page_size, walk_expired=settings.walk_expired)
        cooldowns = dict(ask(_COOLDOWNS, [now + _budget(settings.max_wait, now)]))
    skipped = {account.account_id for account in accounts if account.expired and not settings.walk_expired}
    return Forecast(
        scanned=tuple(one for one in accounts if one.account_id not in skipped | cooldowns.keys()),
        expired=tuple(one for one in accounts if one.account_id in skipped),
        cooling=tuple(
            (one, cooldowns[one.account_id])
            for one in accounts
            if one.account_id in cooldowns and one.account_id not in skipped
        ),
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
        parts = [f"{count(scans, 'scan')} of {accounts} would be made, about {requests}"]
    if found.expired:
        parts.append(f"{count(len(found.expired), 'account')} with an expired token would be skipped")
    if found.cooling:
        until = min(until for _, until in found.cooling)
        accounts = count(len(found.cooling), "account")
        parts.append(f"{accounts} in a cooldown would be deferred, the first until {until:%Y-%m-%d %H:%M:%S} UTC")
    return f"{'; '.join(parts)}."
