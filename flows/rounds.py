"""Whom a run walks: everyone the catalogue lists, while it is still being listed, or those a backfill chose."""

import asyncio
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass

from connectors.source.endpoints import Response
from connectors.warehouse import progress
from connectors.warehouse.account_ids import known_ids, unusual_spellings
from connectors.warehouse.closed_scans import waiting_since
from flows.batches import Batch, BatchReport, Gathering, ListedAccount, walk_batch
from flows.run import RunContext
from flows.steps import RunStep
from flows.together import together
from flows.walking import PartitionWalk
from flows.words import count
from models.ledger import Outcome, is_recent
from models.partition import CATALOGUE, Surface
from models.walk import Fresh, WalkState, plan_walk
from models.wire import AccountPage

EXPIRED = "token_expired"

# So many accounts that are known beforehand are handed on at once, that they make batches, too.
_KNOWN_AT_ONCE = 250


class _Batches:
    """Batches on their way: each becomes a step of the run as soon as it is full."""

    def __init__(self, run: RunContext, run_step: RunStep, group: asyncio.TaskGroup) -> None:
        self._run = run
        self._run_step = run_step
        self._group = group
        self.gathering = Gathering()
        # Every batch is a step of the run, and not of the step in which its accounts were listed.
        self._context = copy_context()

    def send_off(self, accounts: Sequence[ListedAccount], *, all_of_them: bool = False) -> None:
        self.gathering.add(accounts)
        self._run.counters.accounts = self.gathering.listed
        batch = self.gathering.take(all_of_them=all_of_them)
        if batch is not None:
            self._group.create_task(self._walk(batch), context=self._context.copy())

    def send_off_known(self, accounts: Sequence[ListedAccount]) -> None:
        for begin in range(0, len(accounts), _KNOWN_AT_ONCE):
            self.send_off(accounts[begin : begin + _KNOWN_AT_ONCE])

    async def in_turn(self, accounts: Sequence[ListedAccount]) -> None:
        """Scan accounts in their order, a batch after the other."""
        for begin in range(0, len(accounts), _KNOWN_AT_ONCE):
            self.gathering.add(accounts[begin : begin + _KNOWN_AT_ONCE])
            self._run.counters.accounts = self.gathering.listed
            batch = self.gathering.take(all_of_them=True)
            if batch is not None:
                await self._group.create_task(self._walk(batch), context=self._context.copy())

    async def _walk(self, batch: Batch) -> None:
        async def work() -> BatchReport:
            return await walk_batch(self._run, batch)

        await self._run_step(str(batch), work, str)

    def all_listed(self) -> Gathering:
        self._run.counters.catalogue_complete = True
        self.send_off([], all_of_them=True)
        return self.gathering


async def walk_everything(run: RunContext, surfaces: tuple[Surface, ...], run_step: RunStep) -> Gathering:
    """Walk the catalogue and, while it goes on, the accounts listed so far; return who was listed.

    Where requests are limited, the accounts wait until all are listed: those that wait longest come first.
    """
    async with together() as group:
        batches = _Batches(run, run_step, group)
        waiting: list[ListedAccount] | None = [] if run.max_requests is not None else None

        async def catalogue() -> Outcome:
            return await _walk_catalogue(run, surfaces, batches if waiting is None else _Waiting(waiting))

        def told(outcome: Outcome) -> str:
            listed = f"{count(outcome.pages, 'page')}, {count(outcome.items, 'account')}"
            why = f": {outcome.detail}" if outcome.detail else ""
            return f"{outcome.kind.replace('_', ' ')}, {listed}{why}"

        await run_step("account catalogue", catalogue, told)
        if waiting:
            await batches.in_turn(await _longest_waiting(run, waiting))
        return batches.all_listed()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Takes listed accounts in the place of batches, and keeps them."""

    accounts: list[ListedAccount]

    def send_off(self, accounts: Sequence[ListedAccount]) -> None:
        self.accounts.extend(accounts)

    send_off_known = send_off


async def _longest_waiting(run: RunContext, accounts: Sequence[ListedAccount]) -> Sequence[ListedAccount]:
    """Return accounts in the order in which they wait: first those without a closed scan, then by their oldest."""
    known = await run.means.warehouse.read(waiting_since, [account.account_id for account in accounts])
    never = [account for account in accounts if account.account_id not in known]
    others = [account for account in accounts if account.account_id in known]
    return [*never, *sorted(others, key=lambda account: known[account.account_id])]


async def walk_chosen(run: RunContext, chosen: Sequence[ListedAccount], run_step: RunStep) -> Gathering:
    """Walk the accounts that a backfill chose; return them."""
    async with together() as group:
        batches = _Batches(run, run_step, group)
        batches.send_off_known(chosen)
        return batches.all_listed()


async def _walk_catalogue(run: RunContext, surfaces: tuple[Surface, ...], batches: "_Batches | _Waiting") -> Outcome:
    means = run.means

    spellings = await means.warehouse.transact(unusual_spellings)
    unknown: dict[str, ListedAccount] = {}

    def listed(
        listed_as: str, status: str | None, unknown_status: str | None = None, name: str | None = None
    ) -> ListedAccount:
        account_id = spellings.get(listed_as.lower(), listed_as.lower())
        return ListedAccount(account_id, status == EXPIRED, surfaces, listed_as, unknown_status, name)

    found = await means.warehouse.checkpoints("accounts", [""])
    last = found.get(CATALOGUE)
    if run.accept_removals and last is not None and last.state is WalkState.COMPLETE:
        # What a person confirms is the catalogue as it is now, not as an interrupted run found it.
        last = None
    now = means.clock.now()
    plan = plan_walk(CATALOGUE, last, run_id=run.run_id, carried_on=run.carried_on, now=now, new_id=means.new_id)
    # A walk begun too long ago lists who was there then: nobody of it is handed on, for it is walked again at once.
    if not isinstance(plan, Fresh) and is_recent(plan.checkpoint.started_at, now=now, within=run.fresh_within):
        # The pages this walk landed earlier are not asked for again, but their accounts are this run's, too.
        earlier = await means.warehouse.transact(progress.listed, plan.checkpoint.walk_id)
        batches.send_off_known(
            [
                listed(listed_as or account_id, status, unknown_status)
                for account_id, status, listed_as, unknown_status in earlier
            ]
        )

    def on_page(response: Response) -> None:
        if isinstance(response.page, AccountPage):
            accounts = response.page.accounts
            batches.send_off([listed(account.id, account.status, name=account.ig_username) for account in accounts])
            for record in response.page.rejected:
                if record.account_id is not None and record.unknown_status is not None:
                    account = listed(record.account_id, None, record.unknown_status)
                    unknown[account.account_id] = account

    walk = PartitionWalk(run, CATALOGUE, run.scope_wait("account_catalog"), run.stop, last, slot=False, on_page=on_page)
    outcome = await walk.to_outcome()
    # A known account gets its outcomes, whatever its status; one that is not known yet is in quarantine alone.
    known = await means.warehouse.transact(known_ids, unknown) if unknown else ()
    batches.send_off([account for account in unknown.values() if account.account_id in known])
    return outcome
