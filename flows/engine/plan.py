"""What a run would ask for, and why: from the snapshot, without a request, by the functions that begin scans."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from math import ceil, inf

from connectors.state.identity import read_forgotten
from connectors.state.runs import count_requests
from connectors.warehouse.queries.progress import (
    Cost,
    find_costs,
    read_catalogue_pages,
    read_closed_scans,
)
from connectors.warehouse.queries.reader import Record, Snapshot, open_snapshot
from connectors.warehouse.queries.selection import choose_accounts
from flows.engine.accounts import why_skipped
from flows.engine.choosing import choose
from flows.engine.files import open_existing_state
from flows.engine.run_request import RunRequest
from flows.reporting.words import count, join
from models.checkpoint import KNOWN_RUN, PINS, ClosedScan, why_full
from models.feeds import FEEDS, media
from models.selection import DAY, ChosenAccount, Due, Dues, sort_overdue

COOLDOWN, LEFT_OUT, NOT_DUE = "cooldown", "max_requests", "not_due"


@dataclass(frozen=True, slots=True)
class PlannedScan:
    """A scan that a run would make: how deep and why, and about how many requests it takes.

    `scan` is full or recent; none if the `reason` is one why nothing is requested. `resume_after` is when a cooldown
    ends, and `wait` how many seconds the scan would wait for it. `due_at` is when --due scans it, because of
    `due_reason`.
    """

    account_id: str
    ig_username: str | None
    surface: str
    scan: str
    reason: str
    requests: int = 0
    resume_after: datetime | None = None
    wait: float = 0.0
    due_at: datetime | None = None
    due_reason: str = "first"


@dataclass(frozen=True, slots=True)
class Plan:
    """The scans of a run, in their order; `catalogue` are the requests for the account catalogue.

    Forgotten accounts are only counted.
    """

    scans: tuple[PlannedScan, ...]
    catalogue: int = 0
    forgotten: int = 0

    @property
    def is_due(self) -> bool:
        """Whether scans are left out because they are not due."""
        return any(scan.reason == NOT_DUE for scan in self.scans)

    @property
    def longest_wait(self) -> float:
        """Return the longest known wait for a cooldown, in seconds."""
        return max((scan.wait for scan in self.scans), default=0.0)

    @property
    def requests(self) -> int:
        """Return the estimated number of requests."""
        return self.catalogue + sum(scan.requests for scan in self.scans)

    def groups(self) -> list[Record]:
        """Return the number of scans and of requests by depth and reason, those with most requests first."""
        found = defaultdict[tuple[str, str, str], list[int]](list)
        for each in self.scans:
            found[each.scan, each.reason, each.surface].append(each.requests)
        if self.catalogue:
            found["full", "always", "catalogue"].append(self.catalogue)
        return [
            {"surface": surface, "scan": scan, "reason": reason, "scans": len(requests), "requests": sum(requests)}
            for (scan, reason, surface), requests in sorted(found.items(), key=lambda each: (-sum(each[1]), each[0]))
        ]

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
    forgotten = made = 0
    with open_existing_state(request.settings.warehouse) as state:
        if state is not None and request.options.kind == "sync":
            forgotten = len(state.read(read_forgotten).marks)
            made = state.read(count_requests, since=now - DAY)
    with open_snapshot(request.settings.snapshot_file()) as snapshot:
        choice = choose(snapshot.db, request, made=made, now=now)
        catalogue = read_catalogue_pages(snapshot.db) if choice.lists_catalogue and choice.limit != 0 else 0
        left = inf if choice.limit is None else choice.limit - catalogue
        scans = plan_scans(request, snapshot, choice.accounts, choice.dues, now=now, left=left)
    return Plan(tuple(scans), catalogue, forgotten)


def plan_account(request: RunRequest, snapshot: Snapshot, account_id: str, *, now: datetime) -> list[PlannedScan]:
    """Return the next scans of one account; none if it is not listed."""
    listed = choose_accounts(snapshot.db, request.selection)
    accounts = [account for account in listed if account.account_id == account_id]
    return plan_scans(request, snapshot, accounts, {}, now=now, left=inf)


def plan_scans(
    request: RunRequest,
    snapshot: Snapshot,
    accounts: Sequence[ChosenAccount],
    dues: Dues,
    *,
    now: datetime,
    left: float,
) -> list[PlannedScan]:
    """Return the scans of these accounts in the order in which a run makes them; so many requests are left."""
    db, ids = snapshot.db, [account.account_id for account in accounts]
    closed, costs = read_closed_scans(db, ids), find_costs(db, ids, older_than=now - request.lookback)
    planned = list[PlannedScan]()
    for account in sort_overdue(accounts, dues) if request.is_limited else accounts:
        for surface in account.surfaces:
            partition = media(account.account_id, surface)
            cost, last = costs.get(partition, Cost()), closed.get(partition)
            due = dues.get(partition, Due(None, "first"))
            until = cost.resume_after if cost.resume_after and cost.resume_after > now else None
            scan = PlannedScan(account.account_id, account.username, surface, "none", "", 0, until, 0.0, *due)
            wait = (until - now).total_seconds() if until else 0.0
            if (skipped := why_skipped(account, scan_expired=request.settings.scan_expired)) is not None:
                planned.append(replace(scan, reason=skipped[1]))
            elif request.options.due and not due.is_due(now):
                planned.append(replace(scan, reason=NOT_DUE))
            elif wait > request.settings.max_wait:
                planned.append(replace(scan, reason=COOLDOWN))
            elif left <= 0:
                planned.append(replace(scan, reason=LEFT_OUT))
            else:
                every = request.full_refresh_every if FEEDS[surface].may_be_ordered else None
                why = why_full(last, every, at=now)
                takes = _requests(cost, last, request.settings.page_size, is_full=why is not None)
                depth = "full" if why else "recent"
                planned.append(replace(scan, scan=depth, reason=why or "new_posts", requests=takes, wait=wait))
                left -= takes
    return planned


def _requests(cost: Cost, closed: ClosedScan | None, page_size: int, *, is_full: bool) -> int:
    """Return how many requests a scan takes: as many as the last one of its depth, but for pages that have landed."""
    whole = closed.pages if closed else ceil(cost.items / page_size)
    if not is_full:
        # It ends with a page on which enough known posts are older than the lookback window.
        whole = cost.recent_pages or min(whole, ceil((cost.young + KNOWN_RUN + PINS) / page_size))
    return max(1, whole - cost.landed_pages)


def describe_plan(plan: Plan) -> str:
    """Return what a run would do, in one line."""
    made = sum(scan.scan != "none" for scan in plan.scans)
    why_not = sorted({scan.reason for scan in plan.scans if scan.scan == "none"})
    parts = (
        f"{count(made, 'scan')} would run, about {count(plan.requests, 'request')}",
        why_not and f"{len(plan.scans) - made:,} would not ({', '.join(why_not)})",
        plan.longest_wait and f"the longest known wait takes {plan.longest_wait:,.0f} s",
        plan.forgotten and f"{count(plan.forgotten, 'forgotten account')} would be left out",
    )
    return f"{join('; ', parts)}."
