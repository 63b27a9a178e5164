"""Scans one partition: requests pages, lands each, returns the outcome."""

import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from connectors.source.endpoints import ApiRequest, Response, accounts_request, media_request
from connectors.source.errors import ApiError, Deferred, Disposition, Failure, client_error
from connectors.source.pagination import Progress
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.retry import fetch_with_retry
from flows.engine.run_context import RequestsSpent, RunStopped, ScanContext, StoppableClock, StopSignal
from flows.engine.scan_depth import Depth
from flows.reporting.words import count
from models.api import AccountPage, MediaPage
from models.checkpoint import Checkpoint, Done, Fresh, Resume, ScanState, plan_scan
from models.incremental import Feed, read_page
from models.media_page import CursorFault
from models.page_commit import PageCommit, RejectedRecord, ScopeCooldown, StagedPage
from models.page_items import ids_of
from models.partition import CATALOGUE, Partition
from models.runs import ACCOUNTS_REJECTED, ITEMS_REJECTED, Outcome, OutcomeKind, began_within
from models.schema.mapping import Mapping
from models.schema.mapping_built_in import BUILT_IN

OnPage = Callable[[Response], None]

SCOPE_DENIED = "api_scope_denied"
REQUEST_BUDGET = "request_budget"

_log = logging.getLogger(__name__)

_DONE_AS = {ScanState.COMPLETE: OutcomeKind.COMPLETE, ScanState.RECENT: OutcomeKind.RECENT}


def request_for(partition: Partition, cursor: str | None, page_size: int, listed_as: str | None = None) -> ApiRequest:
    """Build the request for a page of a partition; `listed_as` is the account's id as the API writes it."""
    if partition.resource == "accounts":
        return accounts_request(cursor, page_size)
    if partition.surface == "":
        message = f"{partition} names no surface"
        raise ValueError(message)
    return media_request(listed_as or partition.account_id, partition.surface, cursor, page_size)


class Stops(NamedTuple):
    """What an error ends: the whole run, the media scans, or neither."""

    whole_run: bool
    media_scans: bool


def stops(error: Failure, partition: Partition) -> Stops:
    """Return what an error of this partition ends besides its own scan."""
    media_only = error.code == SCOPE_DENIED and partition != CATALOGUE
    is_stop = error.disposition is Disposition.STOP
    return Stops(whole_run=is_stop and not media_only, media_scans=is_stop)


def may_restart(error: Failure, checkpoint: Checkpoint, *, restarted: bool) -> bool:
    """Return whether a scan whose cursor was refused restarts: once, and only if there was a cursor."""
    return error.disposition is Disposition.RESTART and checkpoint.cursor is not None and not restarted


def cursor_is_unusable(error: Failure) -> bool:
    """Return whether a scan must not be resumed at its cursor after this error."""
    return error.disposition is Disposition.RESTART or error.code.startswith("cursor_")


def identities(response: Response, mapping: Mapping) -> Iterable[str]:
    """Return what identifies the items of a page: their ids, or their JSON text if they have no id."""
    page = response.page
    if isinstance(page, AccountPage):
        return [*(account.id for account in page.accounts), *(record.payload for record in page.rejected)]
    # `page.ids` are read with the built-in mapping, so they are wrong if another mapping is in use.
    if len(page.ids) == page.items and mapping.media_id == BUILT_IN.media_id:
        return page.ids
    return [*ids_of(page.body, mapping), *(record.payload for record in page.rejected)]


@dataclass(slots=True)
class PartitionScan:
    """The scan of one partition in one run, from its checkpoint to its outcome, which is always landed."""

    run: ScanContext
    partition: Partition
    budget: RateLimitBudget
    stop_signal: StopSignal
    last: Checkpoint | None
    slot: bool
    listed_as: str | None = None
    username: str | None = None
    expected: int | None = None
    depth: Depth = field(default_factory=Depth)
    on_page: OnPage | None = None
    pages: int = 0
    items: int = 0
    message: str | None = None
    began: datetime = field(init=False)
    plan: Fresh | Resume | Done = field(init=False)
    _checkpoint: Checkpoint = field(init=False)
    _is_retry: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.began = self.run.resources.clock.now()
        self.plan = plan_scan(
            self.partition,
            self.last,
            run_id=self.run.run_id,
            resumed_runs=self.run.resumed_runs,
            now=self.began,
            fresh_within=self.run.fresh_within,
            new_id=self.run.resources.new_id,
            run_kind=self.run.run_kind,
            known_seq=self._known_seq,
        )
        self._checkpoint = self.plan.checkpoint

    async def to_outcome(self) -> Outcome:
        """Scan and return the outcome. Raises only errors of the store or warehouse, and CancelledError."""
        plan = self.plan
        if isinstance(plan, Done):
            kind = _DONE_AS[plan.checkpoint.state]
            return await self._end(kind, detail="Scanned by the run that this one resumes.")
        if resumed := isinstance(plan, Resume):
            self.message = f"Resumed after {plan.checkpoint.pages} pages."
        restarted: Checkpoint | None = None
        while True:
            try:
                outcome = await self._scan(is_too_old=resumed and self._is_old)
                if outcome is not None:
                    return outcome
                self._scan_again(
                    f"An old scan, started {self._checkpoint.started_at:%Y-%m-%d} was abandoned; scanned again from"
                    " the first page."
                )
            except RunStopped as stopped:
                return await self._give_up(stopped.error)
            except Deferred as deferred:
                return await self._defer(deferred)
            except RequestsSpent:
                return await self._end_without_requests()
            except ApiError as error:
                failure = error.failure
                if not may_restart(failure, self._checkpoint, restarted=restarted is not None):
                    return await self._fail(failure, restarted)
                restarted = self._checkpoint
                self.run.counters.restarted += 1
                facts = {**self._about(), **failure.facts}
                _log.info("%s: cursor refused; scanning again from the first page", self.partition, extra=facts)
                self._scan_again("The cursor was refused; scanned again from the first page.")
            resumed = False

    @property
    def _is_old(self) -> bool:
        return not began_within(self._checkpoint.started_at, now=self.began, within=self.run.fresh_within)

    def _scan_again(self, message: str) -> None:
        """Restart at the first page; `message` is the reason."""
        self.message = message
        now, run, before = self.run.resources.clock.now(), self.run, self._checkpoint
        # After a violation of the order, the scan must be full.
        known_seq = self._known_seq if before.order_broken_by is None else None
        self._checkpoint = Checkpoint(
            self.partition, run.resources.new_id(), run.run_id, now, now, run_kind=run.run_kind, known_seq=known_seq
        )

    async def _fail(self, error: Failure, restarted: Checkpoint | None) -> Outcome:
        """End with an error that is not retried, and stop the run or its media scans if the error requires it."""
        _log.warning("%s: %s", self.partition, error, extra={**self._about(), **error.facts})
        ends = stops(error, self.partition)
        if ends.whole_run:
            self.run.stop.set(error)
        if ends.media_scans:
            self.run.stop_media.set(error)
        checkpoint = self._checkpoint
        kept = self._unreadable_page(error, checkpoint.pages + 1)
        # A checkpoint without pages is not stored; the one before the restart is.
        dead = checkpoint if checkpoint.pages else restarted
        return await self._give_up(error, dead if cursor_is_unusable(error) else None, kept)

    @property
    def _known_seq(self) -> int | None:
        return self.depth.known_seq if self.partition.surface == "posts" else None

    async def _scan(self, *, is_too_old: bool) -> Outcome | None:
        """Scan to the last page or to known posts, and return the outcome.

        None after an old scan (`is_too_old`), whose end is not an outcome: newer items are on pages that it had already
        passed.
        """
        run, resources = self.run, self.run.resources
        progress = await self._progress(self._checkpoint)
        feed = await self._feed(self._checkpoint)
        outcome: Outcome | None = None
        while self._checkpoint.state is ScanState.SCANNING:
            self._is_retry = False
            response = await fetch_with_retry(
                self._send,
                request_for(self.partition, self._checkpoint.cursor, resources.page_size, self.listed_as),
                self.budget,
                policy=resources.policy,
                clock=StoppableClock(resources.clock, self.stop_signal),
                random=resources.random,
                release_slot=self._release_slot,
                on_wait=self._start_cooldown,
                about=self._about(),
                host=(resources.base_url or "").partition("://")[2],
            )
            page, now = response.page, resources.clock.now()
            if isinstance(page, MediaPage) and page.cursor_fault is not None and not self._may_end(page.cursor_fault):
                await self._land_without_checkpoint(response, now)
                fault = page.cursor_fault
                raise client_error(
                    response.operation, fault.code, fault.message, correlation_id=response.correlation_id
                )
            progress.follow(response)
            if feed is not None:
                feed = read_page(
                    feed,
                    run.read_posts(page.body),
                    known=self.depth.known,
                    older_than=self._checkpoint.started_at - self.depth.lookback,
                    received_at=now,
                )
            checkpoint = self._checkpoint.advance(
                run_id=run.run_id,
                next_cursor=page.next_cursor,
                items=page.items,
                rejected=self._rejected_on(response),
                at=now,
                repeated_pages=progress.repeated,
                empty_pages=progress.empty,
                feed=feed,
                full_share=None if feed is None else self.depth.full_share,
            )
            self.pages += 1
            self.items += page.items
            if checkpoint.state is not ScanState.SCANNING and not is_too_old:
                outcome = self._ended(checkpoint, response)
            staged = self._staged(response, checkpoint, now)
            await self._land(PageCommit(staged, checkpoint, (outcome,) if outcome else ()))
            self._checkpoint = checkpoint
            self._count(page.items)
            if self.on_page is not None and not is_too_old:
                self.on_page(response)
        return outcome

    def _may_end(self, fault: CursorFault) -> bool:
        """Return whether the list may end with a page without a cursor: if no page of it had one, now or last time."""
        had_cursor = self._checkpoint.had_cursor or (self.last is not None and self.last.had_cursor)
        return fault.may_end and not had_cursor

    async def _land_without_checkpoint(self, response: Response, now: datetime) -> None:
        """Land a page that does not show how the scan continues; the scan ends with an error."""
        self.pages += 1
        self.items += response.page.items
        checkpoint = replace(self._checkpoint, pages=self._checkpoint.pages + 1)
        await self._land(PageCommit(self._staged(response, checkpoint, now)))
        self._count(response.page.items)

    async def _send(self, request: ApiRequest) -> Response:
        """Send one request, in a request slot if the scan uses slots. Raises RunStopped and RequestsSpent."""
        run, counters = self.run, self.run.counters
        async with run.resources.slots.requests.one(self._checkpoint.pages) if self.slot else nullcontext():
            self.stop_signal.check()
            if run.max_requests is not None and counters.requests >= run.max_requests:
                raise RequestsSpent
            counters.retries += self._is_retry
            self._is_retry = True
            counters.requests += 1
            return await run.resources.send(request)

    async def _start_cooldown(self, scope: str, resume_after: datetime, error: Failure) -> None:
        """Land a cooldown before waiting for it, so that it survives a kill."""
        self.run.limited_by[scope] = error
        self.run.counters.cooldowns[scope] = resume_after
        now = self.run.resources.clock.now()
        await self._land(PageCommit(cooldown=ScopeCooldown(scope, resume_after, now)))

    @asynccontextmanager
    async def _release_slot(self) -> AsyncIterator[None]:
        """Release the slot of this scan while the block sleeps."""
        self.stop_signal.check()
        self.run.counters.waiting += 1
        try:
            async with self.run.resources.slots.release_slot() if self.slot else nullcontext():
                yield
        finally:
            self.run.counters.waiting -= 1

    def _count(self, items: int) -> None:
        counters = self.run.counters
        counters.pages += 1
        if self.expected is not None:
            counters.items_left -= max(min(self.items, self.expected) - (self.items - items), 0)
        counters.items += items

    async def _feed(self, checkpoint: Checkpoint) -> Feed | None:
        """Return the state of the feed; None if the partition is not a feed of posts."""
        if self.partition.surface != "posts":
            return None
        # If pages have shifted, the next one begins with items that an earlier run received, which are merged by now.
        seen = await self.run.resources.warehouse.seen(checkpoint.scan_id) if checkpoint.pages else ()
        return checkpoint.feed(seen)

    def _message(self, checkpoint: Checkpoint) -> str | None:
        if checkpoint.known_seq is None or checkpoint.order_broken_by is None:
            return self.message
        broken = "The posts are not listed newest first, so all of them were fetched."
        return f"{self.message} {broken}" if self.message else broken

    async def _progress(self, checkpoint: Checkpoint) -> Progress:
        """Return the tracker of cursors and new items, in the state of the checkpoint."""
        resources = self.run.resources
        progress = Progress(
            lambda response: identities(response, resources.mapping),
            checkpoint.cursor,
            checkpoint.repeated_pages,
            checkpoint.empty_pages,
        )
        if progress.repeated or progress.empty:
            # Without the items that an earlier run saw, the next page would count as new.
            progress.remember(await resources.warehouse.seen(checkpoint.scan_id))
        return progress

    def _staged(self, response: Response, checkpoint: Checkpoint, now: datetime) -> StagedPage:
        return StagedPage(
            partition=self.partition,
            run_id=self.run.run_id,
            scan_id=checkpoint.scan_id,
            page=checkpoint.pages,
            received_at=now,
            correlation_id=response.correlation_id,
            body=response.page.body,
            rejected=response.page.rejected,
            unknown_fields=tuple(sorted(response.page.unknown_fields)),
        )

    async def _defer(self, deferred: Deferred) -> Outcome:
        # The cooldown may come from the account's other surface, which has the same scope.
        error = deferred.error or self.run.limited_by.get(deferred.scope)
        outcome = self._outcome(
            OutcomeKind.DEFERRED,
            error_code=error.code if error else "rate_limited",
            http_status=error.status if error else None,
            correlation_id=error.correlation_id if error else None,
            resume_after=deferred.resume_after,
            detail=error.message if error else "A cooldown from an earlier run is still active.",
        )
        until = deferred.resume_after
        facts = {"code": outcome.error_code, **(error.facts if error else {}), "resume_after": until}
        about = {**self._about(), **facts}
        _log.info("%s: deferred; cooldown until %s UTC", self.partition, f"{until:%F %T}", extra=about)
        await self._land(PageCommit(outcomes=(outcome,)))
        return outcome

    async def _end_without_requests(self) -> Outcome:
        most = count(self.run.max_requests or 0, "request")
        detail = f"The run had made the {most} allowed by --max-requests; the next run continues here."
        return await self._end(OutcomeKind.DEFERRED, error_code=REQUEST_BUDGET, detail=detail)

    def _rejected_on(self, response: Response) -> int:
        """Return how many records of a page go to quarantine."""
        page = response.page
        if isinstance(page, AccountPage):
            return len(page.rejected)
        # The paths of every mapping include the built-in ones.
        if len(page.ids) == page.items:
            return 0
        return sum(post.media_id is None for post in self.run.read_posts(page.body))

    def _ended(self, checkpoint: Checkpoint, response: Response) -> Outcome:
        """Return the outcome of a scan that reached its end."""
        if checkpoint.is_closed:
            return self._outcome(_DONE_AS[checkpoint.state], detail=self._message(checkpoint))
        code, what = ITEMS_REJECTED, "items have no id that gramhouse knows, or are not JSON"
        if self.partition == CATALOGUE:
            code, what = ACCOUNTS_REJECTED, "accounts are malformed"
        message = f"{checkpoint.rejected:,} of {checkpoint.items:,} {what}"
        error = client_error(response.operation, code, message, correlation_id=response.correlation_id).failure
        _log.warning("%s: %s", self.partition, error, extra={**self._about(), **error.facts})
        return self._failed(error)

    def _about(self) -> dict[str, object]:
        account = self.partition.account_id or None
        return {"partition": str(self.partition), "account": account, "username": self.username}

    def _unreadable_page(self, error: Failure, page: int) -> StagedPage | None:
        """Return the page to land if a page could not be parsed: without items, and with its body for quarantine."""
        if error.body is None:
            return None
        return StagedPage(
            partition=self.partition,
            run_id=self.run.run_id,
            scan_id="",
            page=page,
            received_at=self.run.resources.clock.now(),
            correlation_id=error.correlation_id,
            body='{"items":[],"next_cursor":null}',
            rejected=(RejectedRecord(None, f"The page cannot be read: {error.message}", error.body),),
        )

    async def _give_up(self, error: Failure, dead: Checkpoint | None = None, kept: StagedPage | None = None) -> Outcome:
        outcome = self._failed(error)
        now = self.run.resources.clock.now()
        abandoned = dead.abandon(run_id=self.run.run_id, at=now) if dead else None
        await self._land(PageCommit(kept, abandoned, (outcome,)))
        return outcome

    def _failed(self, error: Failure) -> Outcome:
        return self._outcome(
            OutcomeKind(error.outcome),
            error_code=error.code,
            http_status=error.status,
            correlation_id=error.correlation_id,
            detail=error.message,
        )

    async def _end(self, kind: OutcomeKind, **details: object) -> Outcome:
        outcome = self._outcome(kind, **details)
        await self._land(PageCommit(outcomes=(outcome,)))
        return outcome

    async def _land(self, landing: PageCommit) -> None:
        await self.run.resources.warehouse.land(landing)

    def _outcome(self, kind: OutcomeKind, **details: object) -> Outcome:
        return Outcome(
            partition=self.partition,
            run_id=self.run.run_id,
            kind=kind,
            started_at=self.began,
            ended_at=self.run.resources.clock.now(),
            pages=self.pages,
            items=self.items,
            **details,  # type: ignore[arg-type]
        )
