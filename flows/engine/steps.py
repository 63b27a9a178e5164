"""The steps of a run, by the run's id: functions here, Prefect tasks in flows/tasks.py."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from connectors.source.endpoints import Response
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.runs import progress
from connectors.warehouse.runs.account_ids import stored_statuses, unusual_spellings
from connectors.warehouse.runs.closed_scans import waiting_since
from flows.engine.batches import Batch, BatchReport, ListedAccount, scan_batch
from flows.engine.partition_scan import PartitionScan
from flows.engine.run_context import RunContext
from flows.engine.run_request import RunRequest
from flows.engine.upkeep import Published, publish_snapshot
from models.api import AccountPage
from models.checkpoint import ScanState
from models.partition import CATALOGUE, Surface
from models.runs import Outcome, is_recent

EXPIRED = "token_expired"

# The runs of this process that are under way, by their ids: arguments of a task can be pickled, a warehouse cannot.
_OPEN: dict[str, RunContext] = {}


@contextmanager
def open_run(run: RunContext) -> Iterator[None]:
    """Let the steps find a run by its id, as long as the block runs."""
    _OPEN[run.run_id] = run
    try:
        yield
    finally:
        del _OPEN[run.run_id]


async def list_accounts(run_id: str, surfaces: tuple[Surface, ...]) -> Outcome:
    """Page through the account catalogue, a checkpoint with each page; what is listed goes into batches at once."""
    run = _OPEN[run_id]
    resources = run.resources
    spellings = await resources.warehouse.transact(unusual_spellings)
    # By the id as it is stored: the id as it is listed, and the status if that is unknown.
    rejected: dict[str, tuple[str, str | None]] = {}

    def stored_id(listed_as: str) -> str:
        return spellings.get(listed_as.lower(), listed_as.lower())

    def listed(
        listed_as: str, status: str | None, unknown_status: str | None = None, name: str | None = None
    ) -> ListedAccount:
        return ListedAccount(stored_id(listed_as), status == EXPIRED, surfaces, listed_as, unknown_status, name)

    found = await resources.warehouse.checkpoints("accounts", [""])
    last = found.get(CATALOGUE)
    if run.accept_removals and last is not None and last.state is ScanState.COMPLETE:
        # What a person confirms is the catalogue as it is now, not as an interrupted run found it.
        last = None

    def on_page(response: Response) -> None:
        if isinstance(response.page, AccountPage):
            accounts = response.page.accounts
            _add(run, [listed(account.id, account.status, name=account.ig_username) for account in accounts])
            for record in response.page.rejected:
                if record.account_id is not None:
                    rejected[stored_id(record.account_id)] = record.account_id, record.unknown_status

    scan = PartitionScan(run, CATALOGUE, run.budget("account_catalog"), run.stop, last, slot=False, on_page=on_page)
    left = scan.plan.checkpoint
    # Accounts of a scan that began too long ago are not scanned: the catalogue is listed again at once.
    if left.pages and is_recent(left.started_at, now=scan.began, within=run.fresh_within):
        # The pages this scan landed earlier are not asked for again, but their accounts are this run's, too.
        earlier = await resources.warehouse.transact(progress.listed, left.scan_id)
        _add(
            run,
            [
                listed(listed_as or account_id, status, unknown_status)
                for account_id, status, listed_as, unknown_status in earlier
            ],
        )
    outcome = await scan.to_outcome()
    # A known account has outcomes, whatever is wrong with its record; one that is not known yet is in quarantine alone.
    known = await resources.warehouse.transact(stored_statuses, rejected) if rejected else {}
    all_listed(
        run,
        [
            listed(listed_as, known[account_id], unknown_status)
            for account_id, (listed_as, unknown_status) in rejected.items()
            if account_id in known
        ],
    )
    return outcome


async def sync_batch(run_id: str, batch: Batch) -> BatchReport:
    """Scan the media of a batch's accounts: here, or where the run's engine has it scanned."""
    run = _OPEN[run_id]
    engine = run.resources.batches
    return await (scan_batch(run, batch) if engine is None else engine.sync_batch(run, batch))


async def merge(run_id: str) -> MergeStats:
    """Merge all that has landed; return what this run's merges did."""
    return await _OPEN[run_id].resources.warehouse.merge()


async def publish(run_id: str, request: RunRequest) -> Published:
    """Publish a snapshot, and renew the HTML report where the request names one."""
    run = _OPEN[run_id]
    resources = run.resources
    return await publish_snapshot(
        resources.warehouse,
        request,
        resources.bucket,
        now=resources.clock.now(),
        new_id=resources.new_id,
        say=run.say,
    )


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a run; see the functions of the same names."""

    list_accounts: Callable[[str, tuple[Surface, ...]], Coroutine[Any, Any, Outcome]] = list_accounts
    sync_batch: Callable[[str, Batch], Coroutine[Any, Any, BatchReport]] = sync_batch
    merge: Callable[[str], Coroutine[Any, Any, MergeStats]] = merge
    publish: Callable[[str, RunRequest], Coroutine[Any, Any, Published]] = publish


DIRECT = Steps()


def all_listed(run: RunContext, accounts: Iterable[ListedAccount]) -> None:
    """Add the last accounts that a run scans; no more are listed after them."""
    _add(run, accounts)
    run.counters.catalogue_complete = True
    run.batcher.close()


def _add(run: RunContext, accounts: Iterable[ListedAccount]) -> None:
    run.batcher.add(accounts)
    run.counters.accounts = run.batcher.listed


async def longest_waiting(run: RunContext, accounts: Sequence[ListedAccount]) -> list[ListedAccount]:
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
