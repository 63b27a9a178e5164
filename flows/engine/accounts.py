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


async def scan_account(run: ScanContext, account: AccountScan, ended: Ended) -> None:
    """Scan what is left of an account, and call `ended` with each outcome. If it raises, `account` can be continued.

    One surface after the other: both are one rate-limit scope, which must not have concurrent requests, and whose
    cooldown applies to both (API 4.2).
    """
    while scan := _next(run, account):
        ended(await scan_partition(run, scan, account.budget))
        account.scan = None
    run.progress.accounts_done += 1


async def fail_account(run: ScanContext, account: AccountScan, code: str, message: str, ended: Ended) -> None:
    """Land the outcome of a client-side error for each scan that is left of an account, and call `ended` with it."""
    while scan := _next(run, account):
        error = client_error(FEEDS[scan.partition.surface].operation, code, message)
        ended(await end_scan(run, scan, error))
        account.scan = None
    run.progress.accounts_done += 1


def _next(run: ScanContext, account: AccountScan) -> Scan | None:
    """Return the scan that is under way, or begin the next one; None if none is left."""
    if account.scan is None and account.left:
        account.scan = begin(run, account.left.pop(0))
    return account.scan
