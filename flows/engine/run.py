"""A run: what it uses, its row in the state, the runs that it resumes, and its accounts."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from connectors.source.errors import ApiError, Disposition
from connectors.source.messages import CATALOGUE_SCOPE, ApiRequest, Response, account_scope
from connectors.source.waits import RateLimitBudget, Send
from connectors.state.identity import bind_service, read_forgotten, read_identity
from connectors.state.inbox import read_cooldowns
from connectors.state.runs import begin_run, delete_commands, end_run
from flows.config.run_request import RunRequest
from flows.engine.choosing import Choice, choose_scans
from flows.engine.dispatcher import Dispatcher
from flows.engine.resources import RunResources, steady_clock
from flows.engine.scan import describe_failure
from flows.engine.warehouse import Files
from flows.reporting.progress import notices
from flows.reporting.recording import STOPPED, short
from flows.reporting.words import count
from models import release
from models.checkpoint import Landing
from models.erasure import Forgotten, without_forgotten
from models.feeds import CATALOGUE, SURFACES, Partition
from models.files import OtherService, WarehouseUnusable, service_refusal
from models.runs import REQUEST_BUDGET, Outcome, OutcomeKind, RunState
from models.selection import CATALOGUE_ACCOUNT, ChosenAccount, NothingChosen, keep_due, sort_overdue

# A batch has 1/80 of the accounts listed so far. The first batches are one page each, and a million accounts result in
# 530 batches, or 900 if each page has a single account: below the thousand task runs that a Prefect server records
# without loss.
_SHARE = 80

# The size of a batch if more accounts are known at once, as in a backfill.
_FULL_BATCH = 250

# The partitions that settle together.
_SETTLED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Batch:
    """Accounts of a run, of which the first has the number `first`, from 1."""

    first: int
    accounts: tuple[ChosenAccount, ...]

    def __str__(self) -> str:
        due = {surface for account in self.accounts for surface in account.surfaces}
        what = " and ".join(surface for surface in SURFACES if surface in due)
        return f"{what}, accounts {self.first} to {self.first + len(self.accounts) - 1}"


class Run:
    """A run in progress: what was asked for, what its scans share, and its accounts, each once.

    `resources` have a clock that never goes back. `state` is the one with which it ends, unless it is closed. Not a
    dataclass: Prefect would copy the fields of one for each task.
    """

    def __init__(
        self,
        request: RunRequest,
        resources: RunResources,
        run_id: str,
        resumed: tuple[str, ...],
        *,
        choice: Choice,
        cooldowns: Mapping[str, datetime],
    ) -> None:
        """Begin a run, which resumes others; `cooldowns` has the end of each rate-limit scope's cooldown."""
        self.request, self.resources, self.run_id, self.resumed = request, resources, run_id, resumed
        self.warehouse, self.files = resources.warehouse, resources.warehouse.files
        self.clock, self.progress = resources.clock, resources.progress
        self.began_at, self.choice, self._cooldowns = self.clock.now(), choice, cooldowns
        self.dispatcher = Dispatcher(request.settings, resources, choice.limit)
        self.state = RunState.INTERRUPTED
        self._batches = asyncio.Queue[Batch | None]()
        self._waiting: list[ChosenAccount] = []
        # The surfaces of each account that have no outcome.
        self._unsettled = {"": CATALOGUE_ACCOUNT.surfaces} if choice.lists_catalogue else {}
        # What this run landed of partitions that have no outcome yet: their pages and items.
        self.landed = dict[Partition, dict[str, int]]()

    def add(self, accounts: Iterable[ChosenAccount]) -> None:
        """Add accounts, which were listed or chosen, to those that are scanned; with --due only what is due of them.

        They are divided into batches; if the number of requests is limited, all are one, the most overdue first.
        """
        if self.request.options.due:
            scan_expired = self.request.settings.scan_expired
            accounts = keep_due(accounts, self.choice.dues, now=self.began_at, scan_expired=scan_expired)
        for account in accounts:
            if account.account_id not in self._unsettled:
                self._unsettled[account.account_id] = account.surfaces
                self._waiting.append(account)
                self.progress.accounts += 1
        share = self.progress.accounts // _SHARE
        if self.choice.limit is None and len(self._waiting) >= share:
            self._form_batches(max(_FULL_BATCH, share))

    def end_list(self) -> None:
        """Let the accounts that are left be a batch, however small: there are no others."""
        self.progress.catalogue_complete = True
        if self.choice.limit is not None:
            self._waiting = sort_overdue(self._waiting, self.choice.dues)
        self._form_batches(max(1, len(self._waiting)))
        self._batches.put_nowait(None)

    def _form_batches(self, most: int) -> None:
        before = self.progress.accounts - len(self._waiting)
        for first in range(0, len(self._waiting), most):
            self._batches.put_nowait(Batch(before + first + 1, tuple(self._waiting[first : first + most])))
        self._waiting.clear()

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield the accounts while they are being listed, until something ends all scans."""
        while (batch := await self._batches.get()) is not None and not self.dispatcher.has_ended:
            yield batch

    @property
    def stopped_by(self) -> ApiError | None:
        """Return the error that makes the run a failed one. An outage ends the scans, but what they landed counts."""
        error = self.dispatcher.stopped_by
        return error if error is not None and error.rule.disposition is Disposition.STOP else None

    async def land(self, landing: Landing) -> None:
        """Return when it is durable."""
        # Before it is: a scan that is cancelled meanwhile has this outcome, and no other.
        for settled in (outcome.partition for outcome in landing.outcomes):
            left = self._unsettled[settled.account_id]
            self._unsettled[settled.account_id] = tuple(each for each in left if each != settled.surface)
            self.landed.pop(settled, None)
        await self.warehouse.land(landing)

    def budget(self, account: ChosenAccount, now: datetime) -> RateLimitBudget:
        """Return this run's wait budget for the scope of an account, including a cooldown of an earlier run."""
        scope = account_scope(account.account_id) if account.account_id else CATALOGUE_SCOPE
        budget = RateLimitBudget(scope, self.request.settings.max_wait)
        if (resume_after := self._cooldowns.get(scope)) is not None:
            budget.start_cooldown((resume_after - now).total_seconds(), self.clock.monotonic())
        return budget

    async def settle(self, partitions: Iterable[tuple[Partition, Mapping[str, Any]]]) -> None:
        """Give partitions that are not scanned an outcome with these fields."""
        now = self.clock.now()
        outcomes = (Outcome(each, self.run_id, started_at=now, ended_at=now, **about) for each, about in partitions)
        while some := tuple(islice(outcomes, _SETTLED_AT_ONCE)):
            await self.land(Landing(CATALOGUE, self.run_id, outcomes=some))

    async def settle_rest(self) -> None:
        """Give every listed partition that has no outcome the outcome of what ended the scans."""
        rest = [ChosenAccount(account_id, surfaces=left) for account_id, left in self._unsettled.items() if left]
        if not rest:
            return
        if self.dispatcher.stopped_by is not None:
            about = describe_failure(self.dispatcher.stopped_by)
        elif self.dispatcher.is_spent:
            most = count(self.choice.limit or 0, "request")
            detail = f"The limit of the run was reached: {most}, by --max-requests or GRAMHOUSE_REQUESTS_PER_DAY."
            about = {"kind": OutcomeKind.DEFERRED, "error_code": REQUEST_BUDGET, "detail": detail}
        else:
            raise AssertionError(f"{rest[0].feeds[0]} has no outcome")
        await self.settle((feed, about | self.landed.get(feed, {})) for account in rest for feed in account.feeds)

    def end(self, state: RunState, **columns: object) -> None:
        """Write the end of the run, and other columns of its row, to the state."""
        self.state = state
        done = {name: getattr(self.progress, name) for name in ("accounts", "requests", "pages", "items")}
        self.files.state.write(end_run, self.run_id, state, now=self.clock.now(), **done, **columns)


@asynccontextmanager
async def open_run(request: RunRequest, resources: RunResources) -> AsyncIterator[Run]:
    """Begin a run and record it; if the block raises before the run is closed, it is marked as interrupted.

    Raises WarehouseUnusable, also if the clock is behind, OtherService, SelectionError and NothingChosen.
    """
    run = await resources.warehouse.do(_begin, request, resources)
    try:
        if run.resumed:
            notices.warning(f"Resuming run {run.resumed[0]}: what it has saved will not be fetched again.")
        if not run.choice.lists_catalogue:
            run.add(run.choice.accounts)
            run.end_list()
        yield run
    except (asyncio.CancelledError, Exception) as error:
        # Interrupted, not failed, so that the next run resumes it. One that is closed keeps its state: it only lacks a
        # snapshot. If the disk itself failed, this write fails as well, and the next run finds this one still running.
        detail = STOPPED if isinstance(error, asyncio.CancelledError) else short(error)
        with suppress(WarehouseUnusable):
            await run.warehouse.do(run.end, run.state, error_code=None, detail=detail)
        raise


def _begin(request: RunRequest, resources: RunResources) -> Run:
    """Add the row of a run; return it with all that it needs to know."""
    files, options, progress = resources.warehouse.files, request.options, resources.progress
    # A retry in a flow run, and each day of the demo, has the same one.
    progress.clear()
    clock = steady_clock(files, resources.clock)
    _check_service(request, files)
    now = clock.now()
    try:
        choice = choose_scans(files, request, now=now)
    except NothingChosen:
        # What had kept an earlier run from its start has been corrected.
        files.state.write(delete_commands)
        raise
    progress.run_id = resources.new_id()
    resumed = files.state.write(
        begin_run,
        progress.run_id,
        options.kind,
        pid=os.getpid(),
        now=now,
        within=request.within,
        version=release(),
        selection=request.selected,
        reason=options.reason,
        base_url=request.settings.base_url,
        accept_removals=options.accept_removals,
    )
    send = _leave_out(files.state.read(read_forgotten), resources.send)
    cooldowns = files.state.read(read_cooldowns, now=now)
    resources = replace(resources, clock=clock, send=send)
    return Run(request, resources, progress.run_id, resumed, choice=choice, cooldowns=cooldowns)


def _check_service(request: RunRequest, files: Files) -> None:
    """Raise OtherService, which names both addresses, if the data came from another service, or accept this one."""
    if (base_url := request.settings.base_url) is None:
        return
    if request.options.rebind:
        files.state.write(bind_service, base_url)
    elif (refusal := service_refusal(files.state.read(read_identity).base_url, base_url)) is not None:
        raise OtherService(refusal)


def _leave_out(forgotten: Forgotten, send: Send) -> Send:
    """Return `send`, whose pages and errors do not contain forgotten accounts, so that their records never land."""

    async def filtered(request: ApiRequest) -> Response:
        try:
            response = await send(request)
        except ApiError as error:
            # The text of a malformed page would go to quarantine.
            if error.body is not None and forgotten.marks_in(error.body.decode(errors="replace")):
                error.body = None
            raise
        return replace(response, page=without_forgotten(response.page, forgotten))

    return filtered if forgotten.marks else send
