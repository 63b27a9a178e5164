"""`gramhouse sync --dry-run`: the estimated number of requests of a sync, by reason."""

from datetime import UTC, datetime

from flows.cli.output.plain_table import plain_table
from flows.cli.output.terminal import out, print_json
from flows.config.settings import Settings
from flows.reporting.dry_run import CATALOGUE, RECENT, STORIES, Estimate, estimate
from flows.reporting.words import count
from models.incremental import FullReason, SyncMode
from models.partition import Surface

_WHAT = {
    CATALOGUE: "account catalogue",
    STORIES: "stories",
    RECENT: "posts: recent only",
    FullReason.MODE: "posts: full, because of the sync mode",
    FullReason.FIRST: "posts: full, first scan",
    FullReason.UNPROVED: "posts: full, order not verified",
    FullReason.SHORT: "posts: full, fewer than three pages",
    FullReason.REMOVALS: "posts: full, removals to confirm",
    FullReason.DUE: "posts: full, due by schedule",
}


def show_estimate(
    settings: Settings, surfaces: tuple[Surface, ...], mode: SyncMode, most: int | None, *, as_json: bool
) -> None:
    """Print the estimated number of requests of a sync in this mode; `most` is --max-requests.

    Raises SnapshotMissing and WarehouseUnusable.
    """
    found = estimate(settings, surfaces, mode, now=datetime.now(UTC))
    if as_json:
        reasons = {reason: {"scans": found.scans[reason], "requests": found.requests[reason]} for reason in found.scans}
        print_json({"mode": mode, "requests": found.total, "full_requests": found.full_requests, "reasons": reasons})
        return
    table = plain_table({"what": "", "scans": "right", "requests": "right"})
    for reason, what in _WHAT.items():
        if found.scans[reason]:
            table.add_row(what, f"{found.scans[reason]:,}", f"{found.requests[reason]:,}")
    out.print(table)
    out.print(_sentence(found, most))


def _sentence(found: Estimate, most: int | None) -> str:
    message = f"Estimate: {count(found.total, 'request')}; a full refresh would make {found.full_requests:,}."
    if most is not None and most < found.total:
        message += f" --max-requests would defer about {found.total - most:,} of them."
    return message
