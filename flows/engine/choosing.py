"""Who is scanned, why and in which order, and how each scan begins: for a run, and for the plan of one."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from connectors.source.errors import UNKNOWN_STATUS
from connectors.state.database import State
from connectors.state.runs import count_requests, find_next_allowance, read_runs
from connectors.warehouse.queries.progress import read_dues
from connectors.warehouse.queries.selection import choose_accounts
from connectors.warehouse.storage.connection import Database
from flows.config.run_request import RunRequest
from flows.engine.warehouse import Files
from flows.reporting.words import moment
from models.checkpoint import Checkpoint, ClosedScan, FullReason, plan_scan, why_full
from models.feeds import CATALOGUE, Partition
from models.runs import TOKEN_EXPIRED, OutcomeKind
from models.selection import ALLOWANCE, ChosenAccount, Dues, NothingChosen, keep_due


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run scans: known `accounts`, or if it `lists_catalogue` those that it lists.

    `dues` say when each feed is due: with --due only those are. `limit` is the most requests that it makes, if any.
    """

    accounts: Sequence[ChosenAccount] = ()
    dues: Dues = field(default_factory=dict)
    lists_catalogue: bool = True
    limit: int | None = None


def choose(db: Database, state: State | None, request: RunRequest, *, now: datetime) -> Choice:
    """Return what a run would scan now, due or not, by the warehouse or a snapshot. Raises SelectionError."""
    made = 0 if state is None else state.read(count_requests, since=now - ALLOWANCE)
    dues = read_dues(db, request.settings.goals(), scan_expired=request.settings.scan_expired)
    lists_catalogue = request.options.kind == "sync" and (not request.options.due or dues[CATALOGUE].is_due(now))
    return Choice(choose_accounts(db, request.selection), dues, lists_catalogue, request.limit(made))


def choose_scans(files: Files, request: RunRequest, *, now: datetime) -> Choice:
    """Return what a run scans, due or not. Raises SelectionError, and NothingChosen if it has nothing to do."""
    options, settings = request.options, request.settings
    if options.kind == "sync" and not options.due and request.limit() is None:
        # Nothing need be known of the accounts.
        return Choice()
    choice = files.query(choose, files.state, request, now=now)
    if options.kind == "backfill":
        if not choice.accounts:
            raise NothingChosen(f"Nothing to backfill: no scan matches {request.selection}.")
        return choice
    if any(row["published_at"] is None for row in files.state.read(read_runs, limit=1)):
        # The last run was killed, or its snapshot was not published: this one makes up for that.
        return choice
    if choice.limit == 0:
        until = moment(files.state.read(find_next_allowance, settings.requests_per_day or 0, per=ALLOWANCE, now=now))
        raise NothingChosen(f"Nothing is scanned: no request is left of GRAMHOUSE_REQUESTS_PER_DAY until {until} UTC.")
    is_due = any(keep_due(choice.accounts, choice.dues, now=now, scan_expired=settings.scan_expired))
    if not choice.lists_catalogue and not is_due:
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


@dataclass(frozen=True, slots=True)
class ScanStart:
    """How a scan begins: full, because of `why_full`, or else down to known posts, and at `checkpoint`.

    `fresh` is the checkpoint before the first page. `last` is the one that runs of this kind left, and `closed` are the
    last closed scans of any kind.
    """

    why_full: FullReason | None
    fresh: Checkpoint
    checkpoint: Checkpoint
    last: Checkpoint | None
    closed: ClosedScan | None

    @property
    def had_cursor(self) -> bool:
        """Return whether the list had more than one page when it was last scanned."""
        is_begun = self.last is not None and self.last.had_cursor
        return is_begun or (self.closed is not None and self.closed.pages > 1)


Starts = Mapping[Partition, ScanStart]
"""How the scan of each feed begins, and that of the catalogue."""


def start_scans(
    request: RunRequest,
    accounts: Iterable[ChosenAccount],
    last: Mapping[Partition, Checkpoint],
    closed: Mapping[Partition, ClosedScan],
    *,
    resumed: Collection[str],
    began_at: datetime,
    now: datetime,
    run_id: str = "",
    new_id: Callable[[], str] = str,
) -> Starts:
    """Return how the scans of these accounts begin now, by their last checkpoints and their last closed scans.

    The run, which `began_at` a time, resumes other runs. A plan needs no ids.
    """
    starts = {}
    for account in accounts:
        for feed in account.feeds:
            # A user who accepts removals confirms the present catalogue, not what an interrupted run listed of it.
            is_new = feed == CATALOGUE and request.options.accept_removals
            before, known = None if is_new else last.get(feed), closed.get(feed)
            why = why_full(known, request.full_refresh_every(feed.surface), at=began_at)
            fresh = Checkpoint(
                feed, new_id(), run_id, now, now,
                run_kind=request.options.kind,
                known_seq=known.seq if known is not None and why is None else None,
                # The next full scan follows after a whole interval.
                full_share=1.0 if why is FullReason.DUE else None,
                had_expired_token=account.is_expired,
            )  # fmt: skip
            checkpoint = plan_scan(fresh, before, resumed_runs=resumed, within=request.within)
            starts[feed] = ScanStart(why, fresh, checkpoint, before, known)
    return starts
