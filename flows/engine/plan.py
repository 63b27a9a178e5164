"""What a run would ask for, and why: from the snapshot, without a request, by the functions that begin scans."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from math import ceil
from typing import Any

from connectors.state.forgotten import read_forgotten
from connectors.warehouse.queries.progress import (
    Cost,
    find_costs,
    find_due_scans,
    read_catalogue_pages,
    read_closed_scans,
    read_statuses,
)
from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.queries.selection import choose_accounts
from flows.engine.accounts import why_skipped
from flows.engine.files import open_existing_state
from flows.engine.listing import list_account, longest_waiting
from flows.engine.run import decide_incremental
from flows.engine.run_request import RunRequest
from flows.reporting.words import count, join, moment
from models.feeds import FEEDS
from models.incremental import KNOWN_RUN, PINS, ClosedScan, why_full
from models.partition import media

Record = dict[str, Any]

COOLDOWN, LEFT_OUT = "cooldown", "max_requests"


@dataclass(frozen=True, slots=True)
class PlannedScan:
    """A scan that a run would make: how deep and why, and about how many requests it takes.

    `scan` is full or recent; none if the `reason` is one why nothing is requested. `resume_after` is when a cooldown
    ends.
    """

    account_id: str
    ig_username: str | None
    surface: str
    scan: str
    reason: str
    requests: int = 0
    resume_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The scans of a run, in their order; `catalogue` are the requests for the account catalogue.

    `longest_wait` is the longest known wait for a cooldown, in seconds. Forgotten accounts are only counted.
    """

    scans: tuple[PlannedScan, ...]
    catalogue: int = 0
    longest_wait: float = 0.0
    forgotten: int = 0

    @property
    def requests(self) -> int:
        """Return the estimated number of requests."""
        return self.catalogue + sum(scan.requests for scan in self.scans)

    def groups(self) -> list[Record]:
        """Return the number of scans and of requests by depth and reason, those with most requests first."""
        scans, requests = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
        for each in self.scans:
            key = (each.scan, each.reason, each.surface)
            scans[key] += 1
            requests[key] += each.requests
        return [
            {"surface": surface, "scan": scan, "reason": reason, "scans": scans[key], "requests": requests[key]}
            for key in sorted(scans, key=lambda key: (-requests[key], key))
            for scan, reason, surface in [key]
        ]

    def of_catalogue(self) -> list[Record]:
        """Return the row of the catalogue, as `groups` has those of feeds; none for a backfill."""
        row = {"surface": "catalogue", "scan": "full", "reason": "always", "scans": 1, "requests": self.catalogue}
        return [row] if self.catalogue else []

    def document(self) -> Record:
        """Return the plan as one JSON object."""
        return {
            "requests": self.requests,
            "catalogue_requests": self.catalogue,
            "longest_wait": self.longest_wait,
            "forgotten": self.forgotten,
            "groups": self.groups(),
            "scans": [asdict(scan) for scan in self.scans],
        }


def make_plan(request: RunRequest, *, now: datetime) -> Plan:
    """Return what a run would do now. Raises SelectionError, SnapshotMissing and WarehouseUnusable."""
    settings, is_sync = request.settings, request.kind == "sync"
    with open_snapshot(settings.snapshot_file()) as snapshot:
        db = snapshot.db
        if request.selection is None:
            rows = snapshot.query("SELECT account_id, status, ig_username FROM accounts WHERE removed_at IS NULL").rows
            accounts = [list_account(account_id, status, request.surfaces, name) for account_id, status, name in rows]
        else:
            chosen = choose_accounts(db, request.selection)
            statuses = read_statuses(db, [one.account_id for one in chosen])
            accounts = [
                list_account(one.account_id, statuses[one.account_id], one.surfaces, one.ig_username) for one in chosen
            ]
        ids = [account.account_id for account in accounts]
        closed = read_closed_scans(db, ids)
        costs = find_costs(db, ids, older_than=now - request.lookback)
        incremental = decide_incremental(
            request, find_due_scans(db, now=now, every=request.full_refresh_every), now=now
        )
        catalogue = read_catalogue_pages(db) if is_sync else 0
    if request.max_requests is not None:
        accounts = longest_waiting(accounts, closed)
    left = None if request.max_requests is None else request.max_requests - catalogue
    planned, waits = list[PlannedScan](), [0.0]
    for account in accounts:
        for surface in account.surfaces:
            partition = media(account.account_id, surface)
            cost = costs.get(partition, Cost())
            wait = (cost.resume_after - now).total_seconds() if cost.resume_after else 0.0
            scan = PlannedScan(account.account_id, account.username, surface, "none", "")
            if (skipped := why_skipped(account, scan_expired=settings.scan_expired)) is not None:
                scan = replace(scan, reason=skipped[1])
            elif wait > settings.max_wait:
                scan = replace(scan, reason=COOLDOWN, resume_after=cost.resume_after)
            elif left is not None and left <= 0:
                scan = replace(scan, reason=LEFT_OUT)
            else:
                waits.append(wait)
                last = closed.get(partition)
                is_ordered = FEEDS[surface].may_be_ordered
                why = why_full(last, incremental if is_ordered else None)
                takes = _requests(cost, last, settings.page_size, is_full=why is not None)
                scan = replace(scan, scan="full" if why else "recent", reason=why or "new_posts", requests=takes)
                left = None if left is None else left - takes
            planned.append(scan)
    return Plan(tuple(planned), catalogue, max(waits), _forgotten(request) if is_sync else 0)


def _requests(cost: Cost, closed: ClosedScan | None, page_size: int, *, is_full: bool) -> int:
    """Return how many requests a scan takes: as many as the last one of its depth, but for pages that have landed."""
    whole = closed.pages if closed else ceil(cost.items / page_size)
    if not is_full:
        # It ends with a page on which enough known posts are older than the lookback window.
        whole = cost.recent_pages or min(whole, ceil((cost.young + KNOWN_RUN + PINS) / page_size))
    return max(1, whole - cost.landed_pages)


def _forgotten(request: RunRequest) -> int:
    with open_existing_state(request.settings.warehouse) as state:
        return 0 if state is None else len(state.read(read_forgotten).marks)


# What becomes of the accounts of scans that are not made, by reason.
_NOT_MADE = (
    ("token_expired", "with an expired token would be skipped"),
    ("unknown_status", "with an unknown status would fail"),
    (COOLDOWN, "in a cooldown would be deferred, the first until {until} UTC"),
    (LEFT_OUT, "would be left out by --max-requests"),
)


def describe_plan(plan: Plan) -> str:
    """Return what a run would do, in one line."""
    made = [scan for scan in plan.scans if scan.scan != "none"]
    what = f"{count(len(made), 'scan')} of {_accounts(made)} would run, about {count(plan.requests, 'request')}"
    until = moment(min((scan.resume_after for scan in plan.scans if scan.resume_after), default=None), seconds=True)
    skipped = [
        f"{_accounts(found)} {words.format(until=until)}"
        for reason, words in _NOT_MADE
        if (found := [scan for scan in plan.scans if scan.reason == reason])
    ]
    parts = (
        what if made else "Nothing would be scanned",
        plan.longest_wait and f"the longest known wait takes {plan.longest_wait:,.0f} s",
        *skipped,
        plan.forgotten and f"{count(plan.forgotten, 'forgotten account')} would be left out",
    )
    return f"{join('; ', parts)}."


def _accounts(scans: Iterable[PlannedScan]) -> str:
    return count(len({scan.account_id for scan in scans}), "account")
