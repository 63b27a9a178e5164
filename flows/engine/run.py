"""A run: what it uses, its row in the state, the runs that it resumes, and its accounts."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from collections.abc import Mapping as Map
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any

from connectors.source.errors import ApiError
from connectors.source.messages import ApiRequest, Response
from connectors.source.request_rate import RequestRate
from connectors.source.waits import RateLimitBudget, Send
from connectors.state.identity import bind_service, read_forgotten, read_identity
from connectors.state.inbox import read_cooldowns
from connectors.state.runs import begin_run, end_run
from connectors.warehouse.storage.errors import OtherService, WarehouseUnusable
from flows.engine.choosing import AccountBatcher, Batch, Choice, choose_scans
from flows.engine.requests import Requests
from flows.engine.resources import steady_clock
from flows.engine.run_request import RunRequest
from flows.engine.scan import describe_failure
from flows.engine.warehouse import Warehouse
from flows.reporting.progress import Progress, notices
from flows.reporting.recording import STOPPED, short
from flows.reporting.words import count
from models import release
from models.checkpoint import Landing
from models.erasure import Forgotten, without_forgotten
from models.feeds import CATALOGUE, Partition
from models.files import Clock, service_refusal
from models.runs import REQUEST_BUDGET, Outcome, OutcomeKind, RunState

# The most scans that are made once more: if nothing can be read, pausing for each account would take hours.
_MOST_REPEATED = 1_000

# The partitions that settle together.
_SETTLED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class RunResources:
    """The resources of a run, including time, randomness and ids.

    `rate` is that of the first request. `progress` is where a run counts what it does, for those who show it.
    """

    send: Send
    warehouse: Warehouse
    clock: Clock
    random: Callable[[], float]
    new_id: Callable[[], str]
    rate: RequestRate = field(default_factory=RequestRate)
    progress: Progress = field(default_factory=Progress)


class Run:
    """A run in progress: what was asked for, what its scans share, and its accounts.

    `repeats_left` are the scans that may be made once more. Not a dataclass: Prefect would copy the fields of one for
    each task.
    """

    def __init__(
        self,
        request: RunRequest,
        resources: RunResources,
        clock: Clock,
        run_id: str,
        resumed: tuple[str, ...],
        *,
        cooldowns: Map[str, datetime],
        forgotten: Forgotten,
        choice: Choice,
    ) -> None:
        """Begin a run, which resumes others; `cooldowns` has the end of each rate-limit scope's cooldown."""
        ask = _leave_out(forgotten, resources.send) if forgotten.marks else resources.send
        progress, random = resources.progress, resources.random
        self.requests = Requests(
            request, ask, resources.rate, clock, random, resources.warehouse.land, progress, choice.limit
        )
        self.request = request
        self.resources = resources
        self.run_id = run_id
        self.resumed = resumed
        self.clock = clock
        self.progress = progress
        self.mapping = resources.warehouse.files.mapping
        self.began_at = clock.now()
        self.choice = choice
        self.repeats_left = _MOST_REPEATED
        self.batcher = AccountBatcher(request, choice, progress, now=self.began_at)
        # The one with which it ends, unless it is closed.
        self.state = RunState.INTERRUPTED
        self._cooldowns = cooldowns

    async def land(self, landing: Landing) -> None:
        """Return when it is durable."""
        # Before it is: a scan that is cancelled meanwhile has this outcome, and no other.
        for outcome in landing.outcomes:
            self.batcher.settle(outcome.partition)
        await self.resources.warehouse.land(landing)

    def budget(self, scope: str) -> RateLimitBudget:
        """Return this run's wait budget for a rate-limit scope, including a cooldown of an earlier run."""
        budget = RateLimitBudget(scope, self.request.settings.max_wait)
        if (resume_after := self._cooldowns.get(scope)) is not None:
            self.progress.cooldowns[scope] = resume_after
            budget.start_cooldown((resume_after - self.clock.now()).total_seconds(), self.clock.monotonic())
        return budget

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield the accounts while they are being listed, until something ends all scans."""
        while (batch := await self.batcher.batches.get()) is not None and not self.requests.are_over:
            yield batch

    async def settle(self, partitions: Iterable[Partition], **about: Any) -> None:  # noqa: ANN401 - fields of an outcome
        """Give partitions that are not scanned this outcome."""
        now = self.clock.now()
        outcomes = (Outcome(each, self.run_id, started_at=now, ended_at=now, **about) for each in partitions)
        await self.land(Landing(CATALOGUE, self.run_id, outcomes=tuple(outcomes)))

    async def settle_rest(self) -> None:
        """Give every listed partition that has no outcome the outcome of what ended the scans."""
        if self.requests.stopped_by is not None:
            about = describe_failure(self.requests.stopped_by)
        else:
            most = count(self.choice.limit or 0, "request")
            detail = f"The limit of the run was reached: {most}, by --max-requests or GRAMHOUSE_REQUESTS_PER_DAY."
            about = {"kind": OutcomeKind.DEFERRED, "error_code": REQUEST_BUDGET, "detail": detail}
        rest = iter(self.batcher.unsettled())
        while some := tuple(islice(rest, _SETTLED_AT_ONCE)):
            if not self.requests.are_over:
                raise AssertionError(f"{some[0]} has no outcome")
            await self.settle(some, **about)

    async def end(self, state: RunState, **columns: object) -> None:
        """Write the end of the run, and other columns of its row, to the state."""
        self.state = state
        done = {name: getattr(self.progress, name) for name in ("accounts", "requests", "pages", "items")}
        warehouse, now = self.resources.warehouse, self.clock.now()
        await warehouse.write_state(end_run, self.run_id, state, now=now, **done, **columns)


@asynccontextmanager
async def open_run(request: RunRequest, resources: RunResources) -> AsyncIterator[Run]:
    """Begin a run and record it; if the block raises before the run is closed, it is marked as interrupted.

    Raises WarehouseUnusable, also if the clock is behind, OtherService, SelectionError and NothingChosen.
    """
    warehouse, progress, options = resources.warehouse, resources.progress, request.options
    # A retry in a flow run, and each day of the demo, has the same one.
    progress.clear()
    clock = await steady_clock(warehouse, resources.clock)
    await _check_service(request, warehouse)
    now = clock.now()
    choice = await choose_scans(request, warehouse, now)
    progress.run_id = resources.new_id()
    resumed = await warehouse.write_state(
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
    run = Run(
        request,
        resources,
        clock,
        progress.run_id,
        resumed,
        cooldowns=await warehouse.read_state(read_cooldowns, now=now),
        forgotten=await warehouse.read_state(read_forgotten),
        choice=choice,
    )
    try:
        if resumed:
            notices.warning(f"Resuming run {resumed[0]}: what it has saved will not be fetched again.")
        if not choice.lists_catalogue:
            run.batcher.add(choice.accounts)
            run.batcher.close()
        yield run
    except (asyncio.CancelledError, Exception) as error:
        # Interrupted, not failed, so that the next run resumes it. One that is closed keeps its state: it only lacks a
        # snapshot. If the disk itself failed, this write fails as well, and the next run finds this one still running.
        detail = STOPPED if isinstance(error, asyncio.CancelledError) else short(error)
        with suppress(WarehouseUnusable):
            await run.end(run.state, error_code=None, detail=detail)
        raise


async def _check_service(request: RunRequest, warehouse: Warehouse) -> None:
    """Raise OtherService, which names both addresses, if the data came from another service, or accept this one."""
    if (base_url := request.settings.base_url) is None:
        return
    if request.options.rebind:
        await warehouse.write_state(bind_service, base_url)
    elif (refusal := service_refusal((await warehouse.read_state(read_identity)).base_url, base_url)) is not None:
        raise OtherService(refusal)


def _leave_out(forgotten: Forgotten, send: Send) -> Send:
    """Return `send`, whose pages and errors do not contain forgotten accounts, so that their records never land."""

    async def filtered(request: ApiRequest) -> Response:
        try:
            response = await send(request)
        except ApiError as error:
            # The text of a malformed page would go to quarantine.
            body = error.failure.body
            if body is not None and forgotten.marks_in(body.decode(errors="replace")):
                error.failure = replace(error.failure, body=None)
            raise
        return replace(response, page=without_forgotten(response.page, forgotten))

    return filtered
