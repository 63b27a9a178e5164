"""About how many requests a sync would make, by reason: read from the snapshot, so that no writer is in the way."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from connectors.warehouse.snapshot.reader import Snapshot, open_snapshot
from flows.config.settings import Settings
from models.incremental import ClosedScan, Incremental, SyncMode, least_age, recent_pages, why_full
from models.partition import Surface

RECENT = "recent"
CATALOGUE = "catalogue"
STORIES = "stories"

_SCANS = """
SELECT
    a.account_id, w.complete_at, w.recent_at, w.pages, w.items, w.item_order, w.full_share,
    coalesce(w.needs_full, false) AS needs_full, coalesce(m.posts, 0) AS posts, coalesce(m.in_window, 0) AS in_window
FROM accounts AS a
LEFT JOIN completed_scans AS w ON w.resource = 'media' AND w.account_id = a.account_id AND w.surface = 'posts'
LEFT JOIN (
    SELECT account_id, count(*) AS posts, count(*) FILTER (published_at >= $1) AS in_window
    FROM media WHERE surface = 'posts' AND removed_at IS NULL GROUP BY account_id
) AS m ON m.account_id = a.account_id
WHERE a.removed_at IS NULL AND (a.status <> 'token_expired' OR $2)
"""

_LISTED = "SELECT count(*) AS accounts FROM accounts WHERE removed_at IS NULL"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Scans and requests by reason: the catalogue, stories, recent scans of posts, and full ones by why they are full.

    `full_requests`: what full scans alone would take.
    """

    scans: Counter[str]
    requests: Counter[str]
    full_requests: int

    @property
    def total(self) -> int:
        """Return about how many requests it would make."""
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
    """Yield reason, requests, and requests of a full scan, for each account's posts."""
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
    """Return about how many requests a sync would make now. Raises SnapshotMissing and WarehouseUnusable."""
    with open_snapshot(settings.snapshot_file()) as snapshot:
        return _estimate(snapshot, settings, surfaces, mode, now)


def _estimate(
    snapshot: Snapshot, settings: Settings, surfaces: tuple[Surface, ...], mode: SyncMode, now: datetime
) -> Estimate:
    scans, requests, full = Counter[str](), Counter[str](), 0
    [listed] = snapshot.ask(_LISTED).records()
    older_than = now - timedelta(days=settings.lookback_window)
    rows = snapshot.ask(_SCANS, [older_than, settings.scan_expired]).records()
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
