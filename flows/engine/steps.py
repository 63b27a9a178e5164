"""The steps of a run, called with the run's id: as functions here, as Prefect tasks in flows/tasks.py."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from connectors.source.endpoints import CATALOGUE_SCOPE, Response
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.runs import progress
from connectors.warehouse.runs.account_ids import stored_statuses
from connectors.warehouse.runs.closed_scans import waiting_since
from flows.engine import batch_scan
from flows.engine.accounts import ListedAccount
from flows.engine.batches import Batch, BatchReport
from flows.engine.run_context import RunContext
from flows.engine.run_request import RunRequest
from flows.engine.scan import Depth, begin, scan_partition
from flows.engine.upkeep import Published, publish_snapshot
from models.api import AccountPage
from models.checkpoint import ScanState
from models.partition import CATALOGUE, Surface
from models.runs import Outcome

EXPIRED = "token_expired"

# The open runs of this process, by id. A task gets the id, because its arguments must be picklable.
_OPEN: dict[str, RunContext] = {}


@contextmanager
def open_run(run: RunContext) -> Iterator[None]:
    """Register a run, so that the steps find it by its id while the block runs."""
    _OPEN[run.run_id] = run
    try:
        yield
    finally:
        del _OPEN[run.run_id]


async def list_accounts(run_id: str, surfaces: tuple[Surface, ...]) -> Outcome:
    """Page through the account catalogue, with a checkpoint for each page; listed accounts go into batches at once."""
    run = _OPEN[run_id]
    resources = run.resources
    # By stored id: the id as listed, and the status if it is unknown.
    rejected: dict[str, tuple[str, str | None]] = {}

    def listed(
        listed_as: str, status: str | None, unknown_status: str | None = None, name: str | None = None
    ) -> ListedAccount:
        return ListedAccount(listed_as.lower(), status == EXPIRED, surfaces, listed_as, unknown_status, name)

    found = await resources.warehouse.checkpoints("accounts", [""])
    last = found.get(CATALOGUE)
    if run.accept_removals and last is not None and last.state is ScanState.COMPLETE:
        # The user confirms the present catalogue, not the one that an interrupted run listed.
        last = None

    def on_page(response: Response) -> None:
        if isinstance(response.page, AccountPage):
            accounts = response.page.accounts
            _add(run, [listed(account.id, account.status, name=account.ig_username) for account in accounts])
            for record in response.page.rejected:
                if record.account_id is not None:
                    rejected[record.account_id.lower()] = record.account_id, record.unknown_status

    seen = frozenset[str]()
    if last is not None and last.state is ScanState.SCANNING:
        seen = frozenset(await resources.warehouse.seen(last.scan_id))
    scan = begin(run.scans, CATALOGUE, last, depth=Depth(), seen=seen)
    # Accounts of a scan that began too long ago are not added: the catalogue is listed again immediately.
    if scan.checkpoint.pages and not scan.is_too_old:
        # Pages that this scan landed earlier are not requested again, but this run scans their accounts as well.
        earlier = await resources.warehouse.transact(progress.listed, scan.checkpoint.scan_id)
        _add(
            run,
            [
                listed(listed_as or account_id, status, unknown_status)
                for account_id, status, listed_as, unknown_status in earlier
            ],
        )
    outcome = await scan_partition(run.scans, scan, run.budget(CATALOGUE_SCOPE), on_page=on_page)
    # A known account gets outcomes even if its record was rejected; an unknown one is only in quarantine.
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
    """Scan the posts and stories of a batch's accounts."""
    return await batch_scan.sync_batch(_OPEN[run_id], batch)


async def merge(run_id: str) -> MergeStats:
    """Merge all landed pages; return the statistics of this run's merges."""
    return await _OPEN[run_id].resources.warehouse.merge()


async def publish(run_id: str, request: RunRequest) -> Published:
    """Publish a snapshot, and renew the HTML report if the request has one."""
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
    """Add the last accounts that a run scans, and close the list."""
    _add(run, accounts)
    run.progress.catalogue_complete = True
    run.batcher.close()


def _add(run: RunContext, accounts: Iterable[ListedAccount]) -> None:
    run.batcher.add(accounts)
    run.progress.accounts = run.batcher.listed


async def longest_waiting(run: RunContext, accounts: Sequence[ListedAccount]) -> list[ListedAccount]:
    """Return accounts sorted by how long they have waited: those without a closed scan first, then by the oldest one.

    The surfaces of each account are sorted in the same way: otherwise one of them could always use up all requests.
    """
    known = await run.resources.warehouse.read(waiting_since, [account.account_id for account in accounts])
    never = datetime.min.replace(tzinfo=UTC)

    def since(account: ListedAccount, surface: Surface) -> datetime:
        return known.get((account.account_id, surface), never)

    ordered = (
        replace(account, surfaces=tuple(sorted(account.surfaces, key=partial(since, account)))) for account in accounts
    )
    return sorted(ordered, key=lambda account: since(account, account.surfaces[0]))
