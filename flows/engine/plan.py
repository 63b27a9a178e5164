"""Who is scanned, why and in which order: what a run chooses, and what it would ask for, by the same functions."""

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil, inf
from operator import itemgetter
from typing import Any

from connectors.source.errors import UNKNOWN_STATUS
from connectors.state.database import State
from connectors.state.identity import read_forgotten
from connectors.state.inbox import read_checkpoints
from connectors.state.runs import count_requests, find_resumed, read_runs
from connectors.warehouse.queries.progress import Cost, find_costs, read_catalogue_pages, read_closed_scans, read_dues
from connectors.warehouse.queries.reader import Record, Snapshot, open_snapshot
from connectors.warehouse.queries.selection import choose_accounts
from connectors.warehouse.storage.connection import Database
from flows.engine.run_request import RunRequest
from flows.engine.warehouse import Files, open_existing_state
from flows.reporting.words import count, join, moment
from models.checkpoint import KNOWN_RUN, PINS, Checkpoint, ClosedScan, plan_scan, why_full
from models.feeds import CATALOGUE, Partition, media
from models.runs import TOKEN_EXPIRED, OutcomeKind
from models.selection import DAY, ChosenAccount, Due, Dues, NothingChosen, keep_due, sort_overdue


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run scans: known `accounts`, or if it `lists_catalogue` those that it lists.

    `dues` say when each feed is due. `limit` is the most requests that it makes; None without one.
    """

    accounts: Sequence[ChosenAccount] = ()
    dues: Dues = field(default_factory=dict)
    lists_catalogue: bool = True
    limit: int | None = None


def choose(db: Database, request: RunRequest, *, made: int, now: datetime) -> Choice:
    """Return what a run would scan now, due or not, by the warehouse or a snapshot. Raises SelectionError.

    `made` is the number of requests of the last 24 hours.
    """
    dues = read_dues(db, request.settings.goals(), scan_expired=request.settings.scan_expired)
    lists_catalogue = request.options.kind == "sync" and (not request.options.due or dues[CATALOGUE].is_due(now))
    return Choice(choose_accounts(db, request.selection), dues, lists_catalogue, request.limit(made))


def choose_scans(files: Files, request: RunRequest, *, now: datetime) -> Choice:
    """Return what a run scans: of a sync of what is due, only that. Raises SelectionError and NothingChosen."""
    options = request.options
    if options.kind == "sync" and not options.due and request.limit() is None:
        # Nothing need be known of the accounts.
        return Choice()
    choice = files.query(choose, request, made=files.state.read(count_requests, since=now - DAY), now=now)
    if options.kind == "backfill":
        if not choice.accounts:
            raise NothingChosen(f"Nothing to backfill: no scan matches {request.selection}.")
        return choice
    if options.due:
        due = keep_due(choice.accounts, choice.dues, now=now, scan_expired=request.settings.scan_expired)
        choice = replace(choice, accounts=tuple(due))
    if any(row["published_at"] is None for row in files.state.read(read_runs, limit=1)):
        # The last run was killed, or its snapshot was not published: this one makes up for that.
        return choice
    if choice.limit == 0:
        raise NothingChosen("Nothing is scanned: no request is left of GRAMHOUSE_REQUESTS_PER_DAY.")
    if not choice.lists_catalogue and not choice.accounts:
        wanted = (due.at for one, due in choice.dues.items() if one.surface in ("", *request.surfaces))
        first = moment(min(filter(None, wanted)))
        raise NothingChosen(f"Nothing is due before {first} UTC. To sync now, run `gramhouse sync`.")
    return choice


def why_skipped(account: ChosenAccount, *, scan_expired: bool) -> dict[str, Any] | None:
    """Return what the outcomes of an account say that is not scanned; None if it is."""
    if not account.is_expired and account.status != "active":
        # Without the status itself: it is data, which may be anything, such as the API key.
        detail = "The catalogue lists it with a status that gramhouse does not know; `gramhouse accounts` shows it."
        return {"kind": OutcomeKind.FAILED, "error_code": UNKNOWN_STATUS, "detail": detail}
    if account.is_expired and not scan_expired:
        detail = "Its access token must be renewed; the next sync after that scans it again."
        return {"kind": OutcomeKind.SKIPPED, "error_code": TOKEN_EXPIRED, "detail": detail}
    return None


def make_plan(request: RunRequest, *, now: datetime) -> Record:
    """Return what a run would do now, as a JSON object. Raises SelectionError, SnapshotMissing and WarehouseUnusable.

    It has the `scans` of the run, in their order, and in `groups` their number by depth and reason, those with most
    requests first. Forgotten accounts are only counted.
    """
    forgotten = made = 0
    with (
        open_existing_state(request.settings.warehouse) as state,
        open_snapshot(request.settings.snapshot_file()) as snapshot,
    ):
        if state is not None and request.options.kind == "sync":
            forgotten = len(state.read(read_forgotten).marks)
            made = state.read(count_requests, since=now - DAY)
        choice = choose(snapshot.db, request, made=made, now=now)
        saved, catalogue = _Saved(request, state, choice.accounts, now), 0
        if choice.lists_catalogue and choice.limit != 0 and not (listed := saved.begin(CATALOGUE)).is_closed:
            catalogue = max(1, read_catalogue_pages(snapshot.db) - listed.pages)
        if choice.limit is not None:
            ordered = sort_overdue(choice.accounts, choice.dues)
            choice = replace(choice, accounts=ordered, limit=choice.limit - catalogue)
        scans = [*_plan_scans(request, snapshot, choice, saved, now=now)]
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
        saved = _Saved(request, state, choice.accounts, now)
    return [*_plan_scans(request, snapshot, choice, saved, now=now)]


def read_last(state: State, request: RunRequest, account_ids: Collection[str]) -> Map[Partition, Checkpoint]:
    """Return the last checkpoints of the feeds of accounts, or of the catalogue, whose account is empty."""
    last = state.read(read_checkpoints, account_ids, request.options.kind)
    if request.options.accept_removals:
        # The user confirms the present catalogue, not what an interrupted run listed of it.
        return {partition: checkpoint for partition, checkpoint in last.items() if partition != CATALOGUE}
    return last


class _Saved:
    """What earlier runs have saved of scans, as the state knows it; nothing without a state."""

    def __init__(
        self, request: RunRequest, state: State | None, accounts: Sequence[ChosenAccount], now: datetime
    ) -> None:
        self._kind, self._within, self._now = request.options.kind, request.within, now
        self._resumed: Collection[str] = ()
        self._last: Map[Partition, Checkpoint] = {}
        if state is not None:
            ids = ["", *(account.account_id for account in accounts)]
            self._last = read_last(state, request, ids)
            same = {"kind": self._kind, "selection": request.selected, "base_url": request.settings.base_url}
            self._resumed = state.read(find_resumed, now=now, within=request.within, **same)

    def begin(self, partition: Partition, known_seq: int | None = None) -> Checkpoint:
        """Return the checkpoint at which a scan would begin, as a run does; `known_seq` if it may be recent."""
        fresh = Checkpoint(partition, "", "", self._now, self._now, run_kind=self._kind, known_seq=known_seq)
        return plan_scan(fresh, self._last.get(partition), resumed_runs=self._resumed, within=self._within)


def _plan_scans(
    request: RunRequest, snapshot: Snapshot, choice: Choice, saved: _Saved, *, now: datetime
) -> Iterator[Record]:
    """Yield the scans of a choice; its limit is that of the requests for media.

    A `scan` is full or recent; none if the `reason` is one why nothing is requested. `resume_after` is when a cooldown
    ends, and `wait` how many seconds the scan would wait for it. `due_at` is when --due scans it, because of
    `due_reason`.
    """
    settings, ids = request.settings, [account.account_id for account in choice.accounts]
    closed = read_closed_scans(snapshot.db, ids)
    costs = find_costs(snapshot.db, ids, older_than=now - request.lookback)
    left = inf if choice.limit is None else choice.limit
    feeds = ((account, surface) for account in choice.accounts for surface in account.surfaces)
    for account, surface in feeds:
        partition = media(account.account_id, surface)
        cost, last = costs.get(partition, Cost()), closed.get(partition)
        due = choice.dues.get(partition, Due(None, "first"))
        until = cost.resume_after if cost.resume_after and cost.resume_after > now else None
        wait, depth, takes = (until - now).total_seconds() if until else 0.0, "none", 0
        why = why_full(last, request.full_refresh_every(surface), at=now)
        begun = saved.begin(partition, last.seq if last and why is None else None)
        if (skipped := why_skipped(account, scan_expired=settings.scan_expired)) is not None:
            reason = skipped["error_code"]
        elif request.options.due and not due.is_due(now):
            reason = "not_due"
        elif begun.is_closed:
            reason = "saved"
        elif wait > settings.max_wait:
            reason = "cooldown"
        elif left <= 0:
            reason = "max_requests"
        else:
            depth, reason = ("recent", "new_posts") if why is None else ("full", why)
            takes = max(1, _pages(cost, last, settings.page_size, is_full=why is not None) - begun.pages)
            left -= takes
        yield {
            "account_id": account.account_id,
            "ig_username": account.username,
            "surface": surface,
            "scan": depth,
            "reason": reason,
            "requests": takes,
            "resume_after": until,
            "wait": wait if takes else 0.0,
            "due_at": due.at,
            "due_reason": due.reason,
        }


def _pages(cost: Cost, closed: ClosedScan | None, page_size: int, *, is_full: bool) -> int:
    """Return how many pages a scan has: as many as the last one of its depth."""
    whole = closed.pages if closed else ceil(cost.items / page_size)
    if not is_full:
        # It ends with a page on which enough known posts are older than the lookback window.
        whole = cost.recent_pages or min(whole, ceil((cost.young + KNOWN_RUN + PINS) / page_size))
    return whole
