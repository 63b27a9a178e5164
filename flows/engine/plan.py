"""What a run would do now, for people: its scans, and about how many requests they take. No request is sent."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import ceil, inf
from operator import itemgetter

from connectors.source.messages import account_scope
from connectors.state.database import State
from connectors.state.identity import read_forgotten
from connectors.state.inbox import read_checkpoints, read_cooldowns
from connectors.state.runs import find_resumed, read_runs
from connectors.warehouse.queries.progress import Cost, find_costs, read_catalogue_pages, read_closed_scans
from connectors.warehouse.queries.reader import Record, Snapshot, open_snapshot
from connectors.warehouse.queries.selection import choose_accounts
from connectors.warehouse.storage.holder import holder
from flows.config.run_request import RunRequest
from flows.engine.choosing import Choice, ScanStart, Starts, choose, start_scans, why_skipped
from flows.engine.warehouse import open_existing_state
from flows.reporting.words import count, join
from models.checkpoint import KNOWN_RUN, PINS, Checkpoint
from models.feeds import CATALOGUE, Partition
from models.runs import RunState
from models.selection import CATALOGUE_ACCOUNT, ChosenAccount, Due, sort_overdue


def make_plan(request: RunRequest, *, now: datetime) -> Record:
    """Return what a run would do now, as a JSON object. Raises SelectionError, SnapshotMissing and WarehouseUnusable.

    It has the `scans` of the run, in their order, and in `groups` their number by depth and reason, those with most
    requests first. Forgotten accounts are only counted.
    """
    forgotten = 0
    with (
        open_existing_state(request.settings.warehouse) as state,
        open_snapshot(request.settings.snapshot_file()) as snapshot,
    ):
        if state is not None and request.options.kind == "sync":
            forgotten = len(state.read(read_forgotten).marks)
        choice = choose(snapshot.db, state, request, now=now)
        starts, catalogue = _find_starts(request, state, snapshot, choice.accounts, now=now), 0
        if choice.lists_catalogue and choice.limit != 0 and not (listed := starts[CATALOGUE].checkpoint).is_closed:
            catalogue = max(1, read_catalogue_pages(snapshot.db) - listed.pages)
        if choice.limit is not None:
            ordered = sort_overdue(choice.accounts, choice.dues)
            choice = replace(choice, accounts=ordered, limit=choice.limit - catalogue)
        scans = [*_plan_scans(request, state, snapshot, choice, starts, now=now)]
    of_catalogue = {"surface": "catalogue", "scan": "full", "reason": "always", "requests": catalogue}
    groups = dict[object, Record]()
    for each in [*scans, of_catalogue] if catalogue else scans:
        what = {name: each[name] for name in ("surface", "scan", "reason")}
        group = groups.setdefault((*what.values(),), what | {"scans": 0, "requests": 0})
        group["scans"] += 1
        group["requests"] += each["requests"]
    by_name = sorted(groups.values(), key=itemgetter("scan", "reason", "surface"))
    return {
        "requests": sum(group["requests"] for group in by_name),
        "catalogue_requests": catalogue,
        "longest_wait": max((scan["wait"] for scan in scans), default=0.0),
        "forgotten": forgotten,
        "groups": sorted(by_name, key=itemgetter("requests"), reverse=True),
        "scans": scans,
    }


def describe_plan(plan: Record) -> str:
    """Return a plan as a sentence."""
    made = sum(scan["scan"] != "none" for scan in plan["scans"])
    why_not = sorted({scan["reason"] for scan in plan["scans"] if scan["scan"] == "none"})
    parts = (
        f"{count(made, 'scan')} would run, about {count(plan['requests'], 'request')}",
        why_not and f"{len(plan['scans']) - made:,} would not ({', '.join(why_not)})",
        plan["longest_wait"] and f"the longest known wait takes {plan['longest_wait']:,.0f} s",
        plan["forgotten"] and f"{count(plan['forgotten'], 'forgotten account')} would be left out",
    )
    return f"{join('; ', parts)}."


def plan_account(request: RunRequest, snapshot: Snapshot, account_id: str, *, now: datetime) -> list[Record]:
    """Return the next scans of one account; none if it is not listed."""
    listed = choose_accounts(snapshot.db, request.selection)
    choice = Choice([account for account in listed if account.account_id == account_id])
    with open_existing_state(request.settings.warehouse) as state:
        starts = _find_starts(request, state, snapshot, choice.accounts, now=now)
        return [*_plan_scans(request, state, snapshot, choice, starts, now=now)]


def _find_starts(
    request: RunRequest, state: State | None, snapshot: Snapshot, accounts: Sequence[ChosenAccount], *, now: datetime
) -> Starts:
    """Return how a run would begin its scans, and that of the catalogue, now."""
    accounts, kind = [CATALOGUE_ACCOUNT, *accounts], request.options.kind
    ids = [account.account_id for account in accounts]
    last: Mapping[Partition, Checkpoint] = {}
    resumed: Sequence[str] = ()
    if state is not None and not _is_running(state, request):
        last = state.read(read_checkpoints, ids, kind)
        same = {"kind": kind, "selection": request.selected, "base_url": request.settings.base_url}
        resumed = state.read(find_resumed, now=now, within=request.within, **same)
    closed = read_closed_scans(snapshot.db, ids)
    return start_scans(request, accounts, last, closed, resumed=resumed, began_at=now, now=now)


def _is_running(state: State, request: RunRequest) -> bool:
    """Return whether a run of this kind is in progress: the next one begins after it, without what it saves."""
    states = {run["state"] for run in state.read(read_runs, limit=1) if run["kind"] == request.options.kind}
    # A run whose process is gone is running, too, until the next command.
    return RunState.RUNNING in states and holder(request.settings.warehouse) is not None


def _plan_scans(
    request: RunRequest, state: State | None, snapshot: Snapshot, choice: Choice, starts: Starts, *, now: datetime
) -> Iterator[Record]:
    """Yield the scans of a choice; its limit is that of the requests for media.

    A `scan` is full or recent; none if the `reason` is one why nothing is requested. `resume_after` is when a cooldown
    ends, and `wait` how many seconds the scan would wait for it. `due_at` is when --due scans it, because of
    `due_reason`.
    """
    settings, ids = request.settings, [account.account_id for account in choice.accounts]
    costs = find_costs(snapshot.db, ids, older_than=now - request.lookback)
    cooldowns = {} if state is None else state.read(read_cooldowns, now=now)
    left = inf if choice.limit is None else choice.limit
    feeds = ((account, feed) for account in choice.accounts for feed in account.feeds)
    for account, feed in feeds:
        start, cost, due = starts[feed], costs.get(feed, Cost()), choice.dues.get(feed, Due(None, "first"))
        until = cooldowns.get(account_scope(account.account_id))
        wait, depth, takes = (until - now).total_seconds() if until else 0.0, "none", 0
        if (skipped := why_skipped(account, scan_expired=settings.scan_expired)) is not None:
            reason = skipped["error_code"]
        elif request.options.due and not due.is_due(now):
            reason = "not_due"
        elif start.checkpoint.is_closed:
            reason = "saved"
        elif wait > settings.max_wait:
            reason = "cooldown"
        elif left <= 0:
            reason = "max_requests"
        else:
            depth, reason = ("full", start.why_full) if start.why_full else ("recent", "new_posts")
            takes = max(1, _pages(start, cost, settings.page_size) - start.checkpoint.pages)
            left -= takes
        yield {
            "account_id": account.account_id,
            "ig_username": account.username,
            "surface": feed.surface,
            "scan": depth,
            "reason": reason,
            "requests": takes,
            "resume_after": until,
            "wait": wait if takes else 0.0,
            "due_at": due.at,
            "due_reason": due.reason,
        }


def _pages(start: ScanStart, cost: Cost, page_size: int) -> int:
    """Return how many pages a scan has: as many as the last one of its depth."""
    whole = start.closed.pages if start.closed else ceil(cost.items / page_size)
    if start.why_full is None:
        # It ends with a page on which enough known posts are older than the lookback window.
        whole = cost.recent_pages or min(whole, ceil((cost.young + KNOWN_RUN + PINS) / page_size))
    return whole
