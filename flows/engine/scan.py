"""A scan between two pages: where it continues, and its outcome. flows/engine/pages.py requests and lands the pages."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from connectors.source.endpoints import ApiRequest, accounts_request, feed_request
from connectors.source.errors import ApiError, Deferred, Disposition, Failure
from connectors.source.pagination import LoopGuard
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.responses import Response
from connectors.source.retry import Attempts
from flows.reporting.words import join
from models.checkpoint import Checkpoint, ScanState
from models.feeds import FEEDS
from models.incremental import FeedProgress, Post, read_page
from models.partition import Partition
from models.runs import CACHED_ANSWER, Outcome, OutcomeKind
from models.selection import ChosenAccount

_DONE_AS = {ScanState.COMPLETE: OutcomeKind.COMPLETE, ScanState.RECENT: OutcomeKind.RECENT}


@dataclass(slots=True)
class Scan:
    """A scan between two pages: all that the next page needs. Another process can continue it.

    Of the catalogue it has no `account`. It may stop at `known` posts, which the scan that the landing `known_seq`
    closed had seen. `had_cursor`: the list had more than one page when it was last scanned. For `full_share` see
    Checkpoint. `guard`, `feed` and `attempts` are the state between pages; `pages` and `items` count what this run
    landed. `note` becomes the detail of its outcome. `refused_after` counts the items up to the last cursor that the
    API refused. One that `may_repeat` has no outcome yet if it fails for a passing reason: it is scanned once more.
    """

    account: ChosenAccount | None
    began: datetime
    checkpoint: Checkpoint
    attempts: Attempts
    known: frozenset[str] = frozenset()
    known_seq: int | None = None
    full_share: float | None = None
    had_cursor: bool = False
    may_repeat: bool = False
    guard: LoopGuard = field(default_factory=LoopGuard)
    feed: FeedProgress | None = None
    pages: int = 0
    items: int = 0
    note: str | None = None
    refused_after: int | None = None

    @property
    def partition(self) -> Partition:
        """Return what it scans."""
        return self.checkpoint.partition

    @property
    def about(self) -> dict[str, object]:
        """Return the fields of log records about it."""
        username = self.account and self.account.username
        return {"partition": str(self.partition), "account": self.partition.account_id or None, "username": username}

    @property
    def request(self) -> ApiRequest:
        """Return the request for the page that is due."""
        cursor, limit = self.checkpoint.cursor, self.attempts.limit
        if self.account is None:
            return accounts_request(cursor, limit)
        return feed_request(FEEDS[self.partition.surface], self.account.listed_as, cursor, limit)

    def continue_at(self, checkpoint: Checkpoint, seen: frozenset[str] = frozenset()) -> None:
        """Continue at a checkpoint, up to which the scan has `seen` these ids."""
        self.checkpoint = checkpoint
        self.guard = LoopGuard.after(checkpoint.cursor, checkpoint.repeated_pages, checkpoint.empty_pages)
        # Without the items that an earlier run saw, a listing that repeats itself would never end.
        self.guard.remember(seen)
        feed = FEEDS.get(self.partition.surface)
        # If pages have shifted, the next one begins with items that an earlier run received.
        self.feed = checkpoint.feed(seen) if feed is not None and feed.may_be_ordered else None

    def follow(
        self, response: Response, posts: Sequence[Post], *, run_id: str, lookback: timedelta, at: datetime
    ) -> None:
        """Continue behind a page that was received at a time.

        Raises ApiError if the page does not show how the scan continues, or what the service has now.
        """
        page = response.page
        if response.is_cached:
            why = "a cache answered, not the service: the answer has an Age, or the correlation id of an earlier one"
            raise response.error(CACHED_ANSWER, why)
        if self.account is not None:
            # The list may end with a page without a cursor if no page of it had one, now or last time.
            may_end = not self.had_cursor and not self.checkpoint.had_cursor
            if (fault := page.cursor_fault) is not None and not (fault.may_end and may_end):
                raise response.error(fault.code, fault.message)
            records = [post.media_id or raw.decode() for post, raw in zip(posts, page.records, strict=True)]
            rejected = sum(post.media_id is None for post in posts)
        else:
            records = [*(one.id for one in page.accounts), *(one.payload for one in page.rejected)]
            rejected = len(page.rejected)
        self.guard.follow(response, records)
        if self.feed is not None:
            older_than = self.checkpoint.started_at - lookback
            self.feed = read_page(self.feed, posts, known=self.known, older_than=older_than, received_at=at)
        self.checkpoint = self.checkpoint.advance(
            run_id=run_id,
            next_cursor=page.next_cursor,
            items=len(page.records),
            rejected=rejected,
            token_expired=self.account is not None and self.account.is_expired,
            at=at,
            repeated_pages=self.guard.repeated,
            empty_pages=self.guard.empty,
            feed=self.feed,
            full_share=self.full_share,
        )

    def outcome(self, run_id: str, at: datetime, error: ApiError | Deferred | None = None) -> Outcome:
        """Return the outcome of a scan that is closed at its checkpoint, or that an error ended (API 7)."""
        if isinstance(error, ApiError):
            about = describe_failure(error.failure)
            if error.failure.disposition is Disposition.RESTART and self.refused_after is not None:
                why = "the scan cannot finish: its cursor was refused after"
                counts = f"{self.refused_after:,} items, and now it got to {self.checkpoint.items:,}"
                about["detail"] = f"{error.failure.message.rstrip('.')}: {why} {counts}"
        elif isinstance(error, Deferred):
            earlier = {"error_code": "rate_limited", "detail": "A cooldown from an earlier run is still active."}
            about = earlier if error.error is None else describe_failure(error.error)
            about |= {"kind": OutcomeKind.DEFERRED, "resume_after": error.resume_after}
        else:
            is_broken = self.checkpoint.known_seq is not None and self.checkpoint.order_broken_by is not None
            broken = "The posts are not listed newest first, so all of them were fetched." if is_broken else None
            about = {"kind": _DONE_AS[self.checkpoint.state], "detail": join(" ", (self.note, broken)) or None}
        if (reason := self.attempts.reduced_by) is not None:
            smaller = f"Pages of {self.attempts.limit} items were requested, because larger ones failed ({reason})."
            about["detail"] = join(". ", ((about["detail"] or "").rstrip("."), smaller))
        return Outcome(
            self.partition, run_id, started_at=self.began, ended_at=at, pages=self.pages, items=self.items, **about
        )


@dataclass(slots=True)
class AccountScan:
    """The scans of an account that are `left`. They share a wait `budget`.

    `done` counts its outcomes by kind, and their pages. A worker leaves it for so many seconds of `pause`.
    """

    budget: RateLimitBudget
    left: list[Scan]
    done: Counter[str] = field(default_factory=Counter)
    pause: float = 0.0


def describe_failure(failure: Failure) -> dict[str, Any]:
    """Return the fields of an outcome that an error has."""
    return {
        "kind": failure.outcome,
        "error_code": failure.code,
        "http_status": failure.status,
        "correlation_id": failure.correlation_id,
        "detail": failure.message,
    }
