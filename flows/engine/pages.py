"""Scans feeds and the catalogue page by page. Each page lands with its checkpoint before the next is requested."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from connectors.source.errors import ApiError, Deferred, Disposition, Failure, is_transient
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.responses import Response
from connectors.source.retry import Attempts
from flows.engine.requests import Requests, StopRun
from flows.engine.run_request import RunRequest
from flows.engine.scan import AccountScan, Scan
from models.checkpoint import Checkpoint, ScanState, plan_scan
from models.item import read_posts
from models.landing import PageCommit, ReceivedPage
from models.mapping import Mapping
from models.partition import CATALOGUE, Partition
from models.runs import ACCOUNTS_REJECTED, ITEMS_REJECTED, Outcome
from models.selection import ChosenAccount

_log = logging.getLogger(__name__)

# Seconds before a scan that failed for a passing reason is made once more.
_PAUSE = 60.0

# The most scans that are made once more: if nothing can be read, pausing for each account would take hours.
_MOST_REPEATED = 1_000


class Scanner(ABC):
    """What scans, the run itself or a worker for it: they differ in how they `land`."""

    def __init__(
        self,
        request: RunRequest,
        run_id: str,
        resumed: tuple[str, ...],
        mapping: Mapping,
        requests: Requests,
        new_id: Callable[[], str],
    ) -> None:
        """Scan for a run, which resumes the runs `resumed`, and reads media with the mapping of its warehouse."""
        self.request = request
        self.run_id = run_id
        self.resumed = resumed
        self.requests = requests
        self.new_id = new_id
        self.clock = requests.clock
        self.progress = requests.progress
        self.mapping = mapping
        self._repeats_left = _MOST_REPEATED

    @abstractmethod
    async def land(self, commit: PageCommit) -> None:
        """Return when a commit is durable."""

    def begin_scan(
        self,
        partition: Partition,
        last: Checkpoint | None,
        seen: frozenset[str],
        account: ChosenAccount | None = None,
        *,
        known: frozenset[str] = frozenset(),
        known_seq: int | None = None,
        is_due: bool = False,
    ) -> Scan:
        """Decide where a scan begins: `last` is the partition's checkpoint, `seen` what an unfinished one has received.

        It may stop at `known` posts, which the scan that the landing `known_seq` closed had seen. A full scan that
        `is_due` is followed by another one after a whole interval.
        """
        now = self.clock.now()
        fresh = Checkpoint(
            partition,
            self.new_id(),
            self.run_id,
            now,
            now,
            run_kind=self.request.options.kind,
            known_seq=known_seq,
            full_share=1.0 if is_due else None,
            had_expired_token=account is not None and account.is_expired,
        )
        checkpoint = plan_scan(fresh, last, resumed_runs=self.resumed, within=self.request.within)
        scan = Scan(account, fresh, checkpoint, Attempts(self.request.settings.page_size), known)
        scan.had_cursor = last is not None and last.had_cursor
        scan.may_repeat = account is not None
        scan.continue_at(checkpoint, seen)
        return scan

    def is_too_old(self, scan: Scan) -> bool:
        """Return whether newer items are on pages that a scan had passed before it was interrupted."""
        return scan.fresh.started_at - scan.checkpoint.started_at > self.request.within

    async def scan_account(self, account: AccountScan) -> None:
        """Scan what is left of an account. Raises as `scan_partition` does.

        One surface after the other: both are one rate-limit scope, which must not have concurrent requests, and whose
        cooldown applies to both (API 4.2). What fails for a passing reason is scanned once more, after a pause.
        """
        while account.left:
            scan = account.left[0]
            outcome = await self.scan_partition(scan, account.budget)
            account.left.pop(0)
            if outcome is None:
                account.left.append(scan)
            else:
                account.done.update({outcome.kind: 1, "pages": outcome.pages})
            if account.left and not account.left[0].may_repeat:
                await self.requests.sleep(_PAUSE)

    async def scan_partition(self, scan: Scan, budget: RateLimitBudget) -> Outcome | None:
        """Scan to the last page or to known posts.

        Return the outcome, which has landed, or None if the scan failed for a passing reason and may be repeated.
        Raises StopRun if its error, whose outcome has landed, ends other scans, too, and RequestsSpent.
        """
        if scan.checkpoint.is_closed:
            outcome = scan.outcome(self.run_id, self.clock.now())
            await self.land(PageCommit(outcomes=(outcome,)))
            return outcome
        while True:
            try:
                while not scan.checkpoint.is_closed:
                    if (closed := await self._next_page(scan, budget)) is not None:
                        return closed
                why = f"An old scan, started {scan.checkpoint.started_at:%Y-%m-%d}, was abandoned"
            except (ApiError, Deferred) as error:
                unreadable = self._log_error(scan, error)
                if isinstance(error, Deferred) or (reason := self._why_again(scan, error.failure)) is None:
                    return await self._give_up(scan, error, unreadable)
                why = reason
                await self.land(PageCommit(unreadable, self._abandon(scan)))
                if error.failure.disposition is Disposition.RESTART:
                    scan.refused_after = scan.checkpoint.items
                    self.progress.restarted += 1
            # After a violation of the order, the scan must be full.
            known_seq = scan.fresh.known_seq if scan.checkpoint.order_broken_by is None else None
            now = self.clock.now()
            again = replace(scan.fresh, scan_id=self.new_id(), started_at=now, updated_at=now, known_seq=known_seq)
            scan.continue_at(again)
            scan.attempts.failures.clear()
            scan.note = f"{why}; scanned again from the first page."

    async def _next_page(self, scan: Scan, budget: RateLimitBudget) -> Outcome | None:
        """Request and land the page that is due, and return the outcome if that ends the scan.

        After a failure that may pass it waits, and lands nothing. Raises ApiError for others, and as `_land_page`.
        """
        await budget.wait(self.clock, self.requests.sleep)
        try:
            async with self.requests.pages_ahead:
                response = await self.requests.send(scan, budget)
                return await self._land_page(scan, response)
        except ApiError as error:
            await self.requests.wait_after(error, scan, budget)
            return None

    def _why_again(self, scan: Scan, failure: Failure) -> str | None:
        """Return why a scan begins again after a failure, or None if it ends."""
        items, before = scan.checkpoint.items, scan.refused_after
        # Unless each cursor expires before the list ends.
        gets_further = scan.checkpoint.cursor is not None and (before is None or items > before)
        if failure.disposition is Disposition.RESTART and gets_further:
            return "The cursor was refused"
        # An old scan would be repeated anyway, and its cursor may never work again.
        if self.is_too_old(scan) and failure.disposition is not Disposition.STOP and failure.outcome != "denied":
            return f"An old scan could not be continued ({failure})"
        return None

    async def _give_up(self, scan: Scan, error: ApiError | Deferred, unreadable: ReceivedPage | None) -> Outcome | None:
        """End a scan because of an error; its result is that of `scan_partition`."""
        failure = error.failure if isinstance(error, ApiError) else None
        if scan.may_repeat and self._repeats_left and failure is not None and is_transient(failure.code):
            scan.may_repeat = False
            self._repeats_left -= 1
            await self.land(PageCommit(unreadable))
            return None
        outcome, abandoned = scan.outcome(self.run_id, self.clock.now(), error), None
        if failure is not None and (failure.disposition is Disposition.RESTART or failure.code.startswith("cursor_")):
            abandoned = self._abandon(scan)
        await self.land(PageCommit(unreadable, abandoned, (outcome,)))
        if failure is not None and failure.disposition is Disposition.STOP:
            raise StopRun(failure) from None
        return outcome

    def _abandon(self, scan: Scan) -> Checkpoint | None:
        """Return the checkpoint of a scan that no run continues, unless nothing of it is stored."""
        if not scan.checkpoint.pages or scan.checkpoint.state is not ScanState.SCANNING:
            return None
        return scan.checkpoint.abandon(self.clock.now())

    async def _land_page(self, scan: Scan, response: Response) -> Outcome | None:
        """Land a page with its checkpoint, and the outcome if that ends the scan; return that.

        Raises ApiError if the scan cannot continue after it, or has rejected most records. If the page does not show
        how it continues, it lands without a checkpoint.
        """
        page, outcome, error = response.page, None, None
        received = self._receive(scan, page.body, response.correlation_id, scan.checkpoint.scan_id)
        posts = read_posts(page.records, self.mapping) if scan.account is not None else ()
        scan.pages += 1
        scan.items += len(page.records)
        try:
            scan.follow(response, posts, lookback=self.request.lookback, at=received.received_at)
        except ApiError as fault:
            error = fault
        if error is None and scan.checkpoint.is_closed and not self.is_too_old(scan):
            outcome = scan.outcome(self.run_id, self.clock.now())
        checkpoint = scan.checkpoint if error is None else None
        await self.land(PageCommit(received, checkpoint, (outcome,) if outcome else ()))
        self.progress.pages += 1
        self.progress.items += len(page.records)
        if scan.on_page is not None:
            scan.on_page(page)
        if scan.checkpoint.state is ScanState.ABANDONED:
            error = _most_rejected(scan, response)
        if error is not None:
            raise error
        return outcome

    def _receive(self, scan: Scan, body: bytes, correlation_id: str | None, scan_id: str = "") -> ReceivedPage:
        """Return the page that is due as it lands; without a scan its body goes to quarantine."""
        number, now = scan.checkpoint.pages + 1, self.clock.now()
        return ReceivedPage(scan.partition, self.run_id, scan_id, number, now, correlation_id, body)

    def _log_error(self, scan: Scan, error: ApiError | Deferred) -> ReceivedPage | None:
        """Log an error; return the page if it could not be parsed: it goes to quarantine."""
        if isinstance(error, Deferred):
            cause = error.error.facts if error.error else {}
            facts = {**scan.about, "code": "rate_limited", **cause, "resume_after": error.resume_after}
            until = f"{error.resume_after:%F %T}"
            _log.info("%s: deferred; cooldown until %s UTC", scan.partition, until, extra=facts)
            return None
        failure = error.failure
        _log.warning("%s: %s", scan.partition, failure, extra={**scan.about, **failure.facts})
        return None if failure.body is None else self._receive(scan, failure.body, failure.correlation_id)


def _most_rejected(scan: Scan, response: Response) -> ApiError:
    code, what = ITEMS_REJECTED, "items have no id that gramhouse knows, or are not JSON"
    if scan.partition == CATALOGUE:
        code, what = ACCOUNTS_REJECTED, "accounts are malformed"
    message = f"{scan.checkpoint.rejected:,} of {scan.checkpoint.items:,} {what}"
    return response.error(code, message)
