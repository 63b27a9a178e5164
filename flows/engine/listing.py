"""Lists the accounts that a sync scans."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from connectors.source.endpoints import CATALOGUE_SCOPE, ApiRequest
from connectors.source.errors import ApiError
from connectors.source.responses import Response
from connectors.source.retry import Send
from connectors.state.identity import read_forgotten
from connectors.state.progress import read_checkpoints
from connectors.warehouse.queries.progress import find_listed_accounts, read_closed_scans, read_statuses
from flows.engine.pages import scan_partition
from flows.engine.requests import RequestsSpent
from flows.engine.run import Run
from flows.engine.scan import begin_scan
from flows.engine.warehouse import Warehouse
from models.api import Page, RejectedRecord
from models.erasure import Forgotten, without_forgotten
from models.incremental import ClosedScan
from models.partition import CATALOGUE, Partition, media
from models.runs import Outcome
from models.selection import ChosenAccount, choose_account


async def list_accounts(run: Run) -> Outcome | None:
    """Page through the account catalogue, with a cursor checkpoint for each page; note accounts whose token expired.

    The accounts of a page go into batches at once. The records of forgotten accounts are removed from a page when it is
    received, so they never land. Return the outcome, or None if the run has made as many requests as it may.
    """
    warehouse, surfaces = run.resources.warehouse, run.request.surfaces
    last = (await warehouse.read_state(read_checkpoints, [""])).get(CATALOGUE)
    if run.request.options.accept_removals:
        # The user confirms the present catalogue, not what an interrupted run listed of it.
        last = None
    scanning, met = run.scanning, set[str]()
    forgotten = await warehouse.read_state(read_forgotten)
    if forgotten.marks:
        scanning = replace(scanning, send=_leaving_out(forgotten, scanning.send, met))
    scan = begin_scan(scanning, CATALOGUE, last, seen=await run.seen(last))
    if scan.checkpoint.pages and not scan.is_too_old:
        # Pages that this scan landed earlier are not requested again, but this run scans their accounts as well.
        found = await warehouse.read(find_listed_accounts, scan.checkpoint)
        run.add(choose_account(listed_as, status, surfaces) for listed_as, status in found)
    rejected, outcome = list[RejectedRecord](), None

    def add(page: Page) -> None:
        run.add(choose_account(one.id, one.status, surfaces, one.ig_username) for one in page.accounts)
        rejected.extend(page.rejected)

    with suppress(RequestsSpent):
        outcome = await scan_partition(scanning, scan, run.budget(CATALOGUE_SCOPE), add)
    run.add(await _known(warehouse, rejected, surfaces))
    run.add(ChosenAccount(mark, surfaces=surfaces, is_forgotten=True) for mark in sorted(met))
    if run.request.options.max_requests is not None:
        waiting = run.batcher.waiting
        closed = await warehouse.read(read_closed_scans, [account.account_id for account in waiting])
        run.batcher.waiting = longest_waiting(waiting, closed)
    run.all_listed()
    return outcome


def _leaving_out(forgotten: Forgotten, send: Send, met: set[str]) -> Send:
    """Return `send`, whose pages and errors do not contain forgotten accounts; their marks are added to `met`."""

    async def filtered(request: ApiRequest) -> Response:
        try:
            response = await send(request)
        except ApiError as error:
            # The text of a malformed page would go to quarantine.
            failure = error.failure
            if failure.body is not None and forgotten.marks_in(failure.body.decode(errors="replace")):
                raise ApiError(replace(failure, body=None), error.retry_after) from None
            raise
        page, marks = without_forgotten(response.page, forgotten)
        met.update(marks)
        return replace(response, page=page)

    return filtered


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
