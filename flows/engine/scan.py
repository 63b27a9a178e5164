"""A scan between two pages: where it continues, and its outcome. Its pages are requested and land in scanning.py."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from xxhash import xxh3_128_digest

from connectors.source.errors import ApiError, Deferred, Disposition, rule_of
from connectors.source.messages import ApiRequest, Memory, Response, accounts_request, feed_request
from connectors.source.waits import Attempts, RateLimitBudget
from flows.reporting.words import join
from models.checkpoint import Checkpoint, Post, ScanState
from models.feeds import FEEDS, Feed, Partition
from models.runs import ACCOUNTS_REJECTED, ITEMS_REJECTED, Outcome, OutcomeKind
from models.selection import ChosenAccount

_DONE_AS = {ScanState.COMPLETE: OutcomeKind.COMPLETE, ScanState.RECENT: OutcomeKind.RECENT}

# A scan ends with an error after so many consecutive pages of items that it has seen, or without items.
MOST_REPEATED = 10
MOST_EMPTY = 1_000


class After(NamedTuple):
    """What follows an error of a scan: it begins `again` at once, because of this, or it `is_later` scanned once more.

    Otherwise the error is its outcome. If it `abandons` its checkpoint, that is of no use to a later run.
    """

    again: str
    is_later: bool
    abandons: bool


@dataclass(slots=True)
class Scan:
    """A scan between two pages: all that the next page needs. The scans of an account share a `budget` of waits.

    `fresh` is its checkpoint before the first page, `checkpoint` that after the last one. It may stop at `known` posts,
    which the scan that the landing `fresh.known_seq` closed had seen. `had_cursor`: the list had more than one page
    when it was last scanned. `is_old`: newer items are on pages that it had passed before it was interrupted. `seen`
    remembers the items, and `cursors` has digests of the cursors that it has followed. `pages` and `items` count what
    this run landed. `note` becomes the detail of its outcome. `refused_after` counts the items up to the last cursor
    that the API refused. One that `may_repeat` has no outcome yet if it fails for a passing reason: it is scanned once
    more.
    """

    account: ChosenAccount
    fresh: Checkpoint
    checkpoint: Checkpoint
    attempts: Attempts
    budget: RateLimitBudget
    known: frozenset[str] = frozenset()
    had_cursor: bool = False
    is_old: bool = False
    may_repeat: bool = False
    seen: Memory = field(default_factory=Memory)
    cursors: set[bytes] = field(default_factory=set)
    pages: int = 0
    items: int = 0
    note: str | None = None
    refused_after: int = -1

    @property
    def partition(self) -> Partition:
        """Return what it scans."""
        return self.checkpoint.partition

    @property
    def feed(self) -> Feed | None:
        """Return the feed that it scans; None: it scans the catalogue."""
        return FEEDS.get(self.partition.surface)

    @property
    def about(self) -> dict[str, object]:
        """Return the fields of log records about it."""
        account_id, username = self.partition.account_id or None, self.account.username
        return {"partition": str(self.partition), "account": account_id, "username": username}

    @property
    def request(self) -> ApiRequest:
        """Return the request for the page that is due."""
        cursor, limit = self.checkpoint.cursor, self.attempts.limit
        if self.feed is None:
            return accounts_request(cursor, limit)
        return feed_request(self.feed, self.account.listed_as, cursor, limit)

    def continue_at(self, checkpoint: Checkpoint, seen: Iterable[str] = ()) -> None:
        """Continue at a checkpoint, up to which the scan has `seen` these ids."""
        self.checkpoint = checkpoint
        self.cursors = set() if checkpoint.cursor is None else {_digest(checkpoint.cursor)}
        # Without the items that an earlier run saw, a listing that repeats itself would never end.
        self.seen = Memory()
        for media_id in seen:
            self.seen.remember(media_id)

    def follow(self, response: Response, posts: Sequence[Post], *, at: datetime) -> None:
        """Continue behind a page that was received at a time.

        Raises ApiError if the page does not show how the scan continues. Such a page must land without a checkpoint:
        otherwise the scan would continue at its cursor, and might never end.
        """
        page, checkpoint = response.page, self.checkpoint
        # The list may end with a page without a cursor if no page of it had one, now or last time.
        may_end = not self.had_cursor and not checkpoint.had_cursor
        if (fault := page.cursor_fault) is not None and not (fault.may_end and may_end):
            raise response.error(fault.code, fault.message)
        if self.feed is None:
            records = [*(one.id for one in page.accounts), *(one.payload for one in page.rejected)]
            rejected = len(page.rejected)
        else:
            records = [post.media_id or raw.decode() for post, raw in zip(posts, page.records, strict=True)]
            rejected = sum(post.media_id is None for post in posts)
        are_new = [self.seen.remember(record) for record in records]
        if self.feed is not None and self.feed.may_be_ordered:
            listed = zip(posts, are_new, strict=True)
            checkpoint = checkpoint.read_feed(listed, known=self.known, received_at=at)
        checkpoint = checkpoint.advance(
            page.next_cursor, items=len(page.records), rejected=rejected, has_new=any(are_new), at=at
        )
        if page.next_cursor is not None:
            self._check_end(response, page.next_cursor, checkpoint)
        self.checkpoint = checkpoint

    def _check_end(self, response: Response, cursor: str, after: Checkpoint) -> None:
        """Raise ApiError if the scan would never end: its cursors repeat, or its pages have no new items (API 8)."""
        if (digest := _digest(cursor)) in self.cursors:
            why = f"the API returned a cursor again after {len(self.cursors)} cursors: the scan would never end"
            raise response.error("cursor_loop", why)
        self.cursors.add(digest)
        if after.repeated_pages >= MOST_REPEATED or after.empty_pages >= MOST_EMPTY:
            repeated = f"{after.repeated_pages} pages of items already seen in this scan"
            why = f"{repeated} and {after.empty_pages} empty ones came in a row: the listing does not end"
            raise response.error("cursor_no_progress", why)

    def decide(self, error: ApiError) -> After:
        """Return what follows an error after which its page is not requested again."""
        checkpoint, kind, again = self.checkpoint, error.rule.disposition, ""
        # Unless each cursor expires before the list ends.
        if kind is Disposition.RESTART and checkpoint.cursor is not None and checkpoint.items > self.refused_after:
            again = "The cursor was refused"
        # An old scan would be repeated anyway, and its cursor may never work again.
        elif self.is_old and kind is not Disposition.STOP and error.rule.outcome is not OutcomeKind.DENIED:
            again = f"An old scan could not be continued ({error})"
        is_useless = bool(again) or kind is Disposition.RESTART or error.code.startswith("cursor_")
        return After(
            again,
            is_later=not again and self.may_repeat and rule_of(error.code).is_transient,
            abandons=is_useless and checkpoint.pages > 0 and checkpoint.state is ScanState.SCANNING,
        )

    def check_rejected(self, response: Response) -> None:
        """Raise ApiError if the scan ended, and has rejected most records."""
        if self.checkpoint.state is ScanState.ABANDONED:
            code, what = ITEMS_REJECTED, "items have no id that gramhouse knows, or are not JSON"
            if self.feed is None:
                code, what = ACCOUNTS_REJECTED, "accounts are malformed"
            raise response.error(code, f"{self.checkpoint.rejected:,} of {self.checkpoint.items:,} {what}")

    def outcome(self, at: datetime, error: ApiError | Deferred | None = None) -> Outcome:
        """Return the outcome of a scan that is closed at its checkpoint, or that an error ended (API 7)."""
        if isinstance(error, ApiError):
            about = describe_failure(error)
            if error.rule.disposition is Disposition.RESTART and self.refused_after >= 0:
                why = "the scan cannot finish: its cursor was refused after"
                counts = f"{self.refused_after:,} items, and now it got to {self.checkpoint.items:,}"
                about["detail"] = f"{error.message.rstrip('.')}: {why} {counts}"
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
            **about,
            partition=self.partition,
            run_id=self.fresh.run_id,
            started_at=self.fresh.started_at,
            ended_at=at,
            pages=self.pages,
            items=self.items,
        )


def describe_failure(error: ApiError) -> dict[str, Any]:
    """Return the fields of an outcome that an error has."""
    return {
        "kind": error.rule.outcome,
        "error_code": error.code,
        "http_status": error.status,
        "correlation_id": error.correlation_id,
        "detail": error.message,
    }


def _digest(cursor: str) -> bytes:
    # A cursor may be a kilobyte.
    return xxh3_128_digest(cursor.encode())
