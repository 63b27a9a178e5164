"""Scans the feeds of one account, one after the other."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from connectors.source.errors import client_error
from connectors.source.rate_limit import RateLimitBudget
from flows.engine.scan import Scan, ScanContext, Start, begin, end_scan, scan_partition
from models.feeds import FEEDS
from models.runs import Outcome


@dataclass(slots=True)
class AccountScan:
    """The scans of an account that are `left` in a run; `scan` is under way. Another process can continue it."""

    budget: RateLimitBudget
    left: list[Start]
    scan: Scan | None = None


Ended = Callable[[Outcome], None]
ScanAccount = Callable[[ScanContext, AccountScan, Ended], Coroutine[Any, Any, None]]


async def scan_account(run: ScanContext, account: AccountScan, ended: Ended, *, lost: str | None = None) -> None:
    """Scan what is left of an account, and call `ended` with each outcome. If it raises, `account` can be continued.

    One surface after the other: both are one rate-limit scope, which must not have concurrent requests, and whose
    cooldown applies to both (API 4.2). With `lost`, the reason why workers lost the account, nothing is scanned.
    """
    while scan := _next(run, account):
        if lost is None:
            outcome = await scan_partition(run, scan, account.budget)
        else:
            operation = FEEDS[scan.partition.surface].operation
            outcome = await end_scan(run, scan, client_error(operation, "worker_lost", lost))
        ended(outcome)
        account.scan = None
    run.progress.accounts_done += 1


def _next(run: ScanContext, account: AccountScan) -> Scan | None:
    """Return the scan that is under way, or begin the next one; None if none is left."""
    if account.scan is None and account.left:
        account.scan = begin(run, account.left.pop(0))
    return account.scan
