"""Lists the accounts that a sync scans."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from connectors.source.endpoints import CATALOGUE_SCOPE
from connectors.state.progress import read_checkpoints
from connectors.warehouse.queries.progress import find_listed_accounts, read_closed_scans, read_statuses
from flows.engine.requests import RequestsSpent
from flows.engine.run import Run
from flows.engine.warehouse import Warehouse
from models.api import Page, RejectedRecord
from models.incremental import ClosedScan
from models.partition import CATALOGUE, Partition, media
from models.runs import Outcome
from models.selection import ChosenAccount, choose_account


async def list_accounts(run: Run) -> Outcome | None:
    """Page through the account catalogue, with a cursor checkpoint for each page; note accounts whose token expired.

    The accounts of a page go into batches at once. Return the outcome, or None if the run has made as many requests as
    it may.
    """
    warehouse, surfaces, batcher = run.resources.warehouse, run.request.surfaces, run.batcher
    last = (await warehouse.read_state(read_checkpoints, [""])).get(CATALOGUE)
    if run.request.options.accept_removals:
        # The user confirms the present catalogue, not what an interrupted run listed of it.
        last = None
    scan = run.begin_scan(CATALOGUE, last, await run.seen(last))
    if scan.checkpoint.pages and not run.is_too_old(scan):
        # Pages that this scan landed earlier are not requested again, but this run scans their accounts as well.
        found = await warehouse.read(find_listed_accounts, scan.checkpoint)
        batcher.add(choose_account(listed_as, status, surfaces) for listed_as, status in found)
    rejected, outcome = list[RejectedRecord](), None

    def add(page: Page) -> None:
        batcher.add(choose_account(one.id, one.status, surfaces, one.ig_username) for one in page.accounts)
        rejected.extend(page.rejected)

    with suppress(RequestsSpent):
        outcome = await run.scan_partition(scan, run.budget(CATALOGUE_SCOPE), add)
    batcher.add(await _known(warehouse, rejected, surfaces))
    batcher.add(ChosenAccount(mark, surfaces=surfaces, is_forgotten=True) for mark in sorted(run.forgotten_listed))
    if run.request.options.max_requests is not None:
        closed = await warehouse.read(read_closed_scans, [account.account_id for account in batcher.waiting])
        batcher.waiting = longest_waiting(batcher.waiting, closed)
    batcher.close()
    return outcome


async def _known(
    warehouse: Warehouse, rejected: Sequence[RejectedRecord], surfaces: tuple[str, ...]
) -> list[ChosenAccount]:
    """Return accounts that get outcomes although their record was rejected, because they are known."""
    listed_as = {record.account_id.lower(): record.account_id for record in rejected if record.account_id is not None}
    statuses = await warehouse.read(read_statuses, listed_as) if listed_as else {}
    return [choose_account(listed_as[key], status, surfaces) for key, status in statuses.items()]


def longest_waiting(accounts: Sequence[ChosenAccount], closed: Mapping[Partition, ClosedScan]) -> list[ChosenAccount]:
    """Return accounts sorted by how long they have waited: those without a closed scan first, then by the oldest one.

    The surfaces of each account are sorted in the same way: otherwise one of them could always use up all requests.
    """
    never = datetime.min.replace(tzinfo=UTC)

    def since(account: ChosenAccount, surface: str) -> datetime:
        scan = closed.get(media(account.account_id, surface))
        return never if scan is None else scan.closed_at

    ordered = (
        replace(account, surfaces=tuple(sorted(account.surfaces, key=partial(since, account)))) for account in accounts
    )
    return sorted(ordered, key=lambda account: since(account, account.surfaces[0]))
