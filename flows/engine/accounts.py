"""Whom a run scans: everyone the catalogue lists, while it is still being listed, or those a backfill chose."""

import asyncio
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from connectors.source.endpoints import Response
from connectors.warehouse.runs import progress
from connectors.warehouse.runs.account_ids import known_ids, unusual_spellings
from connectors.warehouse.runs.closed_scans import waiting_since
from flows.engine.batches import AccountBatcher, Batch, BatchReport, ListedAccount, LocalBatches
from flows.engine.partition_scan import PartitionScan
from flows.engine.run_context import RunContext
from flows.engine.steps import RunStep
from flows.engine.task_group import fail_fast_group
from flows.reporting.words import count
from models.api import AccountPage
from models.checkpoint import Fresh, ScanState, plan_scan
from models.partition import CATALOGUE, Surface
from models.runs import Outcome, is_recent

EXPIRED = "token_expired"

# So many accounts that are known beforehand are handed on at once, that they make batches, too.
_KNOWN_AT_ONCE = 250


class _Dispatcher:
    """Batches on their way: each becomes a step of the run as soon as it is full."""

    def __init__(self, run: RunContext, run_step: RunStep, group: asyncio.TaskGroup) -> None:
        self._run = run
        self._run_step = run_step
        self._group = group
        self._engine = run.resources.batches or LocalBatches()
        self.batcher = AccountBatcher(self._engine.least, self._engine.most)
        # Every batch is a step of the run, and not of the step in which its accounts were listed.
        self._context = copy_context()

    def dispatch(self, accounts: Sequence[ListedAccount], *, all_of_them: bool = False) -> None:
        self._add(accounts)
        while (batch := self.batcher.take(all_of_them=all_of_them)) is not None:
            self._scan_beside(batch)

    def _add(self, accounts: Sequence[ListedAccount]) -> None:
        self.batcher.add(accounts)
        self._run.counters.accounts = self.batcher.listed

    def _scan_beside(self, batch: Batch) -> "asyncio.Task[None]":
        return self._group.create_task(self._scan(batch), context=self._context.copy())

    def dispatch_known(self, accounts: Sequence[ListedAccount]) -> None:
        for begin in range(0, len(accounts), _KNOWN_AT_ONCE):
            self.dispatch(accounts[begin : begin + _KNOWN_AT_ONCE])

    async def scan_in_order(self, accounts: Sequence[ListedAccount]) -> None:
        """Scan accounts in their order, a batch after the other."""
        for begin in range(0, len(accounts), _KNOWN_AT_ONCE):
            self._add(accounts[begin : begin + _KNOWN_AT_ONCE])
            while (batch := self.batcher.take(all_of_them=True)) is not None:
                await self._scan_beside(batch)

    async def _scan(self, batch: Batch) -> None:
        async def work() -> BatchReport:
            return await self._engine.sync_batch(self._run, batch)

        await self._run_step(str(batch), work, str)

    def all_listed(self) -> AccountBatcher:
        self._run.counters.catalogue_complete = True
        self.dispatch([], all_of_them=True)
        return self.batcher


async def scan_everything(run: RunContext, surfaces: tuple[Surface, ...], run_step: RunStep) -> AccountBatcher:
    """Scan the catalogue and, while it goes on, the accounts listed so far; return who was listed.

    Where requests are limited, the accounts wait until all are listed: those that wait longest come first.
    """
    async with fail_fast_group() as group:
        batches = _Dispatcher(run, run_step, group)
        waiting: list[ListedAccount] | None = [] if run.max_requests is not None else None

        async def catalogue() -> Outcome:
            return await _scan_catalogue(run, surfaces, batches if waiting is None else _Waiting(waiting))

        def describe(outcome: Outcome) -> str:
            listed = f"{count(outcome.pages, 'page')}, {count(outcome.items, 'account')}"
            why = f": {outcome.detail}" if outcome.detail else ""
            return f"{outcome.kind.replace('_', ' ')}, {listed}{why}"

        await run_step("account catalogue", catalogue, describe)
        if waiting:
            await batches.scan_in_order(await _longest_waiting(run, waiting))
        return batches.all_listed()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Takes listed accounts in the place of batches, and keeps them."""

    accounts: list[ListedAccount]

    def dispatch(self, accounts: Sequence[ListedAccount]) -> None:
        self.accounts.extend(accounts)

    dispatch_known = dispatch


async def _longest_waiting(run: RunContext, accounts: Sequence[ListedAccount]) -> Sequence[ListedAccount]:
    """Return accounts in the order in which they wait: first those without a closed scan, then by their oldest.

    Of each account, too, the surface comes first that waits longest: otherwise one would take all requests each time.
    """
    known = await run.resources.warehouse.read(waiting_since, [account.account_id for account in accounts])
    never = datetime.min.replace(tzinfo=UTC)

    def since(account: ListedAccount, surface: Surface) -> datetime:
        return known.get((account.account_id, surface), never)

    ordered = (
        replace(account, surfaces=tuple(sorted(account.surfaces, key=partial(since, account)))) for account in accounts
    )
    return sorted(ordered, key=lambda account: since(account, account.surfaces[0]))


async def scan_chosen(run: RunContext, chosen: Sequence[ListedAccount], run_step: RunStep) -> AccountBatcher:
    """Scan the accounts that a backfill chose; return them."""
    async with fail_fast_group() as group:
        batches = _Dispatcher(run, run_step, group)
        batches.dispatch_known(chosen)
        return batches.all_listed()


async def _scan_catalogue(run: RunContext, surfaces: tuple[Surface, ...], batches: "_Dispatcher | _Waiting") -> Outcome:
    resources = run.resources

    spellings = await resources.warehouse.transact(unusual_spellings)
    unknown: dict[str, ListedAccount] = {}

    def listed(
        listed_as: str, status: str | None, unknown_status: str | None = None, name: str | None = None
    ) -> ListedAccount:
        account_id = spellings.get(listed_as.lower(), listed_as.lower())
        return ListedAccount(account_id, status == EXPIRED, surfaces, listed_as, unknown_status, name)

    found = await resources.warehouse.checkpoints("accounts", [""])
    last = found.get(CATALOGUE)
    if run.accept_removals and last is not None and last.state is ScanState.COMPLETE:
        # What a person confirms is the catalogue as it is now, not as an interrupted run found it.
        last = None
    now = resources.clock.now()
    plan = plan_scan(
        CATALOGUE, last, run_id=run.run_id, resumed_runs=run.resumed_runs, now=now, new_id=resources.new_id
    )
    # A scan begun too long ago lists who was there then: nobody of it is handed on, for it is scanned again at once.
    if not isinstance(plan, Fresh) and is_recent(plan.checkpoint.started_at, now=now, within=run.fresh_within):
        # The pages this scan landed earlier are not asked for again, but their accounts are this run's, too.
        earlier = await resources.warehouse.transact(progress.listed, plan.checkpoint.scan_id)
        batches.dispatch_known(
            [
                listed(listed_as or account_id, status, unknown_status)
                for account_id, status, listed_as, unknown_status in earlier
            ]
        )

    def on_page(response: Response) -> None:
        if isinstance(response.page, AccountPage):
            accounts = response.page.accounts
            batches.dispatch([listed(account.id, account.status, name=account.ig_username) for account in accounts])
            for record in response.page.rejected:
                if record.account_id is not None and record.unknown_status is not None:
                    account = listed(record.account_id, None, record.unknown_status)
                    unknown[account.account_id] = account

    scan = PartitionScan(run, CATALOGUE, run.budget("account_catalog"), run.stop, last, slot=False, on_page=on_page)
    outcome = await scan.to_outcome()
    # A known account gets its outcomes, whatever its status; one that is not known yet is in quarantine alone.
    known = await resources.warehouse.transact(known_ids, unknown) if unknown else ()
    batches.dispatch([account for account in unknown.values() if account.account_id in known])
    return outcome
