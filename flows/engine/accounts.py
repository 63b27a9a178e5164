"""Scans the feeds of one account, one after the other."""

from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from connectors.source.errors import UNKNOWN_STATUS, ApiError
from connectors.source.rate_limit import RateLimitBudget
from flows.engine.scan import Depth, Scan, ScanContext, begin, end_scan, scan_partition
from models.checkpoint import Checkpoint
from models.feeds import SURFACES
from models.forgotten import FORGOTTEN
from models.partition import Partition, media
from models.runs import Outcome, OutcomeKind


@dataclass(frozen=True, slots=True)
class ListedAccount:
    """An account that a run scans: its id, whether its token has expired, and the surfaces that are due.

    `listed_as` is the id as the API writes it, if that differs. An account with an `unknown_status` is not scanned, and
    neither is one that `is_forgotten`; its id is its mark (models/forgotten.py).
    """

    account_id: str
    expired: bool
    surfaces: tuple[str, ...] = SURFACES
    listed_as: str | None = None
    unknown_status: str | None = None
    ig_username: str | None = None
    is_forgotten: bool = False


@dataclass(slots=True)
class AccountScan:
    """The scans of an account that are `left` in a run; `scan` is under way. Another process can continue it.

    `checkpoints`, `seen` and `depths` are what the warehouse knew before the run: the last scans, the ids that those
    without an end have received (by scan), and how deep each surface is scanned.
    """

    account: ListedAccount
    checkpoints: Mapping[Partition, Checkpoint]
    seen: dict[str, frozenset[str]]
    depths: Mapping[str, Depth]
    budget: RateLimitBudget
    left: list[str]
    scan: Scan | None = None


ScanAccount = Callable[[ScanContext, AccountScan, Callable[[Outcome], None]], Coroutine[Any, Any, None]]


async def scan_account(run: ScanContext, account: AccountScan, ended: Callable[[Outcome], None]) -> None:
    """Scan what is left of an account, and call `ended` with each outcome. If it raises, `account` can be continued.

    One surface after the other: both are one rate-limit scope, which must not have concurrent requests, and whose
    cooldown applies to both (API 4.2).
    """
    while account.left:
        if account.scan is None:
            account.scan = _begin(run, account, account.left[0])
        ended(await scan_partition(run, account.scan, account.budget))
        account.scan = None
        del account.left[0]
    run.progress.accounts_done += 1


async def fail_account(
    run: ScanContext, account: AccountScan, error: ApiError, ended: Callable[[Outcome], None]
) -> None:
    """Land the outcome of an error for each scan that is left of an account, and call `ended` with it."""
    for surface in account.left:
        ended(await end_scan(run, account.scan or _begin(run, account, surface), error))
        account.scan = None
    run.progress.accounts_done += 1


def _begin(run: ScanContext, account: AccountScan, surface: str) -> Scan:
    partition = media(account.account.account_id, surface)
    last = account.checkpoints.get(partition)
    return begin(
        run,
        partition,
        last,
        depth=account.depths[surface],
        seen=account.seen.pop(last.scan_id, frozenset()) if last else frozenset(),
        listed_as=account.account.listed_as,
        username=account.account.ig_username,
    )


def _why_not(account: ListedAccount) -> tuple[OutcomeKind, str, str]:
    if account.is_forgotten:
        return OutcomeKind.SKIPPED, FORGOTTEN, FORGOTTEN
    if account.unknown_status is not None:
        detail = f"The catalogue lists it with the status {account.unknown_status}."
        return OutcomeKind.FAILED, UNKNOWN_STATUS, detail
    detail = "Its access token must be renewed; the next sync after that scans it again."
    return OutcomeKind.SKIPPED, "token_expired", detail


def not_scanned(accounts: Collection[ListedAccount], run_id: str, now: datetime) -> Iterator[Outcome]:
    """Yield the outcomes of accounts that are not scanned: forgotten, with an unknown status or expired token."""
    for account in accounts:
        kind, code, detail = _why_not(account)
        for surface in account.surfaces:
            partition = media(account.account_id, surface)
            yield Outcome(partition, run_id, kind, now, now, error_code=code, detail=detail)
