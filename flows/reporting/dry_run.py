"""What a sync or a backfill would do now, estimated without blocking a writer or waiting for one."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from connectors.source.endpoints import CATALOGUE_SCOPE, account_scope
from connectors.warehouse.maintenance.inspection import inspect
from connectors.warehouse.runs.selection import choose
from connectors.warehouse.snapshot.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.errors import WarehouseError
from connectors.warehouse.storage.statements import statements
from flows.config.settings import Settings
from flows.reporting.words import count
from models.incremental import ClosedScan, Incremental, SyncMode, least_age, recent_pages, why_full
from models.partition import Surface
from models.selection import ChosenAccount, Selection

_SQL = statements(__name__)

# A partition is in a cooldown until its last outcome's `resume_after`, unless a later run has scanned it.
_PUBLISHED = """
SELECT account_id, max(resume_after) FROM (
    SELECT o.account_id, arg_max(o.outcome, r.seq) AS outcome, arg_max(o.resume_after, r.seq) AS resume_after
    FROM run_outcomes AS o JOIN runs AS r USING (run_id) GROUP BY o.resource, o.account_id, o.surface
)
WHERE outcome = 'deferred' AND resume_after > $1 GROUP BY account_id
"""


@dataclass(frozen=True, slots=True)
class Cooldowns:
    """The end (UTC) of each tenant scope's cooldown. `as_of`: when the snapshot was published; None: current values."""

    until: Mapping[str, datetime] = field(default_factory=dict)
    as_of: datetime | None = None

    @property
    def caveat(self) -> str:
        """Return a sentence about the age of the cooldowns; empty if they are current."""
        if self.as_of is None:
            return ""
        at = f"{self.as_of:%Y-%m-%d %H:%M} UTC"
        return f" Cooldowns are those of {at}, from the snapshot, because the warehouse cannot be read now."


def read_cooldowns(settings: Settings, activity: str, snapshot: Snapshot | None, *, now: datetime) -> Cooldowns:
    """Read the cooldowns that end after `now` from the warehouse, or if it cannot be read now, from the snapshot."""
    try:
        found = inspect(
            settings.warehouse, activity, now=now, since=now.isoformat(timespec="seconds"), pause=time.sleep
        )
    except WarehouseError:
        # For example, another process is writing to it.
        found = None
    if found is not None:
        return Cooldowns(found.cooldowns)
    if snapshot is None:
        return Cooldowns()
    rows = snapshot.query(_PUBLISHED, [now]).rows
    ((published_at,),) = snapshot.query("SELECT max(snapshot_at) FROM published").rows
    return Cooldowns({account_scope(one) if one else CATALOGUE_SCOPE: until for one, until in rows}, published_at)


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

        def ask(query: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
            return snapshot.query(query, parameters).rows

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


RECENT = "recent"
CATALOGUE = "catalogue"
STORIES = "stories"

_LISTED = "SELECT count(*) AS accounts FROM accounts WHERE removed_at IS NULL"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Scans and requests by reason: the catalogue, stories, recent scans of posts, and full ones by their FullReason.

    `full_requests`: the requests that full scans alone would make.
    """

    scans: Counter[str]
    requests: Counter[str]
    full_requests: int

    @property
    def total(self) -> int:
        """Return the estimated number of requests."""
        return self.requests.total()


def _pages(records: int, page_size: int) -> int:
    return max(1, -(-records // page_size))


def _closed(row: dict[str, Any], page_size: int) -> ClosedScan | None:
    if row["complete_at"] is None:
        return None
    pages = None if row["pages"] is None else _pages(row["items"] or 0, page_size)
    return ClosedScan(
        seq=0,
        complete_at=row["complete_at"],
        closed_at=row["recent_at"] or row["complete_at"],
        pages=pages,
        items=row["items"],
        is_ordered=row["item_order"] is not None,
        full_share=1.0 if row["full_share"] is None else row["full_share"],
        needs_full=row["needs_full"],
    )


def _posts(
    rows: list[dict[str, Any]], settings: Settings, mode: SyncMode, now: datetime
) -> Iterator[tuple[str, int, int]]:
    """Yield the reason, the requests, and the requests of a full scan, for each account's posts."""
    size, every = settings.page_size, timedelta(days=settings.full_refresh_every)
    scans = [(row, _closed(row, size)) for row in rows]
    due = [
        (closed.age(now, every), closed.pages or 0)
        for _, closed in scans
        if closed is not None and closed.is_eligible and closed.is_full_due(now, every)
    ]
    incremental = None
    if mode == "incremental":
        incremental = Incremental(now, every, least_age(due, settings.full_refresh_budget))
    for row, closed in scans:
        pages = _pages(row["posts"], size)
        why = why_full(closed, incremental)
        takes = pages if why is not None else recent_pages(row["in_window"], pages, size)
        yield (RECENT if why is None else why.value), takes, pages


def estimate(settings: Settings, surfaces: tuple[Surface, ...], mode: SyncMode, *, now: datetime) -> Estimate:
    """Estimate the requests that a sync would make now. Raises SnapshotMissing and WarehouseUnusable."""
    with open_snapshot(settings.snapshot_file()) as snapshot:
        return _estimate(snapshot, settings, surfaces, mode, now)


def _estimate(
    snapshot: Snapshot, settings: Settings, surfaces: tuple[Surface, ...], mode: SyncMode, now: datetime
) -> Estimate:
    scans, requests, full = Counter[str](), Counter[str](), 0
    [listed] = snapshot.query(_LISTED).records()
    older_than = now - timedelta(days=settings.lookback_window)
    rows = snapshot.query(_SQL["scans"], [older_than, settings.scan_expired]).records()
    scans[CATALOGUE] = 1
    requests[CATALOGUE] = full = _pages(listed["accounts"], settings.page_size)
    if "stories" in surfaces:
        scans[STORIES] = requests[STORIES] = len(rows)
        full += len(rows)
    if "posts" in surfaces:
        for reason, takes, pages in _posts(rows, settings, mode, now):
            scans[reason] += 1
            requests[reason] += takes
            full += pages
    return Estimate(scans, requests, full)
