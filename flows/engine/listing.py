"""Lists the accounts that a sync scans."""

from collections.abc import Sequence
from contextlib import suppress

from connectors.source.endpoints import CATALOGUE_SCOPE
from connectors.state.progress import read_checkpoints
from connectors.warehouse.queries.progress import find_listed_accounts, read_statuses
from flows.engine.requests import RequestsSpent
from flows.engine.run import Run
from flows.engine.warehouse import Warehouse
from models.api import Page, RejectedRecord
from models.partition import CATALOGUE
from models.runs import Outcome
from models.selection import ChosenAccount


async def list_accounts(run: Run) -> Outcome | None:
    """Page through the account catalogue, with a cursor checkpoint for each page; note accounts whose token expired.

    The accounts of a page go into batches at once. Return the outcome, or None if the run has made as many requests as
    it may.
    """
    warehouse, surfaces = run.resources.warehouse, run.request.surfaces
    last = (await warehouse.read_state(read_checkpoints, [""])).get(CATALOGUE)
    if run.request.options.accept_removals:
        # The user confirms the present catalogue, not what an interrupted run listed of it.
        last = None
    scan = run.begin_scan(CATALOGUE, last, await run.seen(last))
    if scan.checkpoint.pages and not run.is_too_old(scan):
        # Pages that this scan landed earlier are not requested again, but this run scans their accounts as well.
        found = await warehouse.read(find_listed_accounts, scan.checkpoint)
        run.add(ChosenAccount(listed_as, status, surfaces) for listed_as, status in found)
    rejected, outcome = list[RejectedRecord](), None

    def add(page: Page) -> None:
        run.add(ChosenAccount(one.id, one.status, surfaces, one.ig_username) for one in page.accounts)
        rejected.extend(page.rejected)

    with suppress(RequestsSpent):
        outcome = await run.scan_partition(scan, run.budget(CATALOGUE_SCOPE), add)
    run.add(await _known(warehouse, rejected, surfaces))
    run.end_listing()
    return outcome


async def _known(
    warehouse: Warehouse, rejected: Sequence[RejectedRecord], surfaces: tuple[str, ...]
) -> list[ChosenAccount]:
    """Return accounts that get outcomes although their record was rejected, because they are known."""
    listed_as = {record.account_id.lower(): record.account_id for record in rejected if record.account_id is not None}
    statuses = await warehouse.read(read_statuses, listed_as) if listed_as else {}
    return [ChosenAccount(listed_as[key], status, surfaces) for key, status in statuses.items()]
