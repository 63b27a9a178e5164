"""The expected rows after pages have landed and scans have closed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tests.harness.oracle.feed import Closed, Feed, completed, is_covered, spread
from tests.harness.oracle.reading import Item, content, is_same, published

# Account and surface, both empty for the catalogue; with an item's id.
Partition = tuple[str, str]
Key = tuple[str, str, str]
CATALOGUE: Partition = ("", "")
_DAY = timedelta(hours=24)
# After the first scan that misses an item, or an account, another may confirm its removal.
_CONFIRM, _CONFIRM_ACCOUNT = timedelta(hours=1), timedelta(hours=12)


@dataclass(eq=False, kw_only=True)
class Scan:
    """A scan, whose first page was the `began`th of all to land; `following` is the cursor of the next page.

    It began between `earliest` and `started`, in process `begun_in`; `process` landed its last page so far.
    `known_landed`: the landing that closed the scan whose posts it may stop at; None for a full scan.
    """

    earliest: datetime
    started: datetime
    begun_in: int
    process: int
    began: int = 0
    pages: int = 0
    items: int = 0
    rejected: int = 0
    seen: set[Key] = field(default_factory=set)
    feed: Feed = field(default_factory=Feed)
    share: float | None = None
    known_landed: int | None = None
    following: str | None = None
    cursors: set[str] = field(default_factory=set)
    recent: bool = False
    closed: bool = False
    restarts: bool = False
    abandoned: bool = False
    ended_in: int = -1


@dataclass
class Account:
    """An account as last listed, in the `landed`th page of all; it has had its status since `since`."""

    ig_username: str
    public_id: str
    status: str
    since: datetime
    first_seen_at: datetime
    last_seen_at: datetime
    scan: object
    landed: int
    removed_at: datetime | None = None

    @property
    def token_expired_since(self) -> datetime | None:
        return self.since if self.status == "token_expired" else None


@dataclass
class Accounts:
    """All accounts ever listed. `periods` are rows of account, status, from and to.

    `missing` has, for each missing one, the end of the first scan that missed it. `is_empty`: the last
    complete catalogue lists none of the accounts.
    """

    rows: dict[str, Account] = field(default_factory=dict)
    periods: list[tuple[Any, ...]] = field(default_factory=list)
    missing: dict[str, datetime] = field(default_factory=dict)
    is_empty: bool = False

    def see(self, account_id: str, item: dict[str, Any], scan: object, landed: int, at: datetime) -> None:
        """Process a listed account."""
        self.is_empty = False
        self.missing.pop(account_id, None)
        known, status = self.rows.get(account_id), item["status"]
        kept = known if known is not None and known.removed_at is None and known.status == status else None
        if kept is None:
            self._begin(account_id, status, at)
        since, first = kept.since if kept else at, known.first_seen_at if known else at
        self.rows[account_id] = Account(item["ig_username"], item["public_id"], status, since, first, at, scan, landed)

    @property
    def lacks_many(self) -> bool:
        """Return whether a run must be partial, because a person should look at the missing accounts."""
        present = sum(row.removed_at is None for row in self.rows.values())
        return self.is_empty or 10 * len(self.missing) > present

    def present(self) -> dict[str, str]:
        """Return the accounts that are not removed, with their status."""
        return {one: row.status for one, row in self.rows.items() if row.removed_at is None}

    def _begin(self, account_id: str, status: str, at: datetime) -> None:
        self.periods = [(*each[:3], at) if (each[0], each[3]) == (account_id, None) else each for each in self.periods]
        self.periods.append((account_id, status, at, None))

    def end(self, scan: Scan, at: datetime) -> int:
        """Complete a scan; return the number of removed accounts. An empty catalogue decides nothing."""
        gone, present = 0, [row for row in self.rows.values() if row.removed_at is None]
        self.is_empty = bool(present) and all(row.landed < scan.began for row in present)
        if not any(row.landed >= scan.began for row in self.rows.values()):
            return gone
        for one, row in self.rows.items():
            if row.removed_at is not None or row.landed >= scan.began:
                continue
            since = self.missing.get(one)
            self.missing[one] = min(since or at, at)
            if since is not None and scan.started - since >= _CONFIRM_ACCOUNT:
                row.removed_at = self.missing.pop(one)
                self._begin(one, "removed", row.removed_at)
                gone += 1
        return gone


@dataclass
class Row:
    """An item; `payload` is that of its last change, and the `landed`th page of all wrote it last."""

    payload: Item
    first_seen_at: datetime
    written_at: datetime
    changed_at: datetime
    content_changed_at: datetime
    landed: int
    removed_at: datetime | None = None
    removal: str | None = None


class Missing(NamedTuple):
    """An item that a closed scan missed: since when (None if the scan rejected records), and when it was last seen."""

    since: datetime | None
    last_seen: datetime


@dataclass
class Media:
    """All items ever listed. `closed` are the last closed scans, `ended` the landings that closed them."""

    rows: dict[Key, Row] = field(default_factory=dict)
    superseded: list[tuple[Key, datetime, datetime, Item]] = field(default_factory=list)
    changes: list[tuple[Key, Item, datetime]] = field(default_factory=list)
    missing: dict[Key, Missing] = field(default_factory=dict)
    undecided: dict[Partition, datetime] = field(default_factory=dict)
    closed: dict[Partition, Closed] = field(default_factory=dict)
    ended: dict[Partition, int] = field(default_factory=dict)

    def see(self, key: Key, payload: Item, landed: int, at: datetime) -> Sequence[str]:
        """Process a listed item; return the counts it belongs to: added, or changed and returned."""
        self.missing.pop(key, None)
        row = self.rows.get(key)
        if row is None:
            self.rows[key] = Row(payload, at, at, at, at, landed)
            self.changes.append((key, payload, at))
            return ["added"]
        is_gone, same = row.removed_at is not None, is_same(row.payload, payload)
        if same and not is_gone:
            return []
        row.removed_at, row.removal, row.written_at, row.landed = None, None, at, landed
        if not same:
            if content(row.payload) != content(payload):
                self.superseded.append((key, row.content_changed_at, at, row.payload))
                row.content_changed_at = at
            row.payload, row.changed_at = payload, at
            self.changes.append((key, payload, at))
        return [*(["returned"] if is_gone else []), *([] if same else ["changed"])]

    def end(self, partition: Partition, landed: int, scan: Scan, at: datetime) -> Counter[str]:
        """Close a scan: what it covered and did not see is missing. Return the numbers of items removed and expired."""
        missed = [
            key
            for key, row in self.rows.items()
            if key[:2] == partition and row.removed_at is None and row.landed < scan.began and key not in scan.seen
            if not scan.recent or is_covered(published(row.payload), scan.feed.read_to)
        ]
        found = Counter[str]()
        for key in missed:
            row, before = self.rows[key], self.missing.pop(key, None) or Missing(None, self.last_seen(key))
            # A story that was a day old has ended.
            has_ended = key[1] == "stories" and at - (published(row.payload) or row.first_seen_at) >= _DAY
            missing, removal = self._after(before, scan, at, has_ended=has_ended)
            if removal is None:
                self.missing[key] = missing
            else:
                row.removed_at, row.written_at, row.removal = missing.since, missing.last_seen, removal
                found[removal] += 1
        if missed and scan.rejected:
            self.undecided.setdefault(partition, at)
        elif not scan.recent or all(one.since for key, one in self.missing.items() if key[:2] == partition):
            self.undecided.pop(partition, None)
        self._close(partition, scan, at)
        self.ended[partition] = landed
        return found

    @staticmethod
    def _after(before: Missing, scan: Scan, at: datetime, *, has_ended: bool) -> tuple[Missing, str | None]:
        """THE RULE OF REMOVALS: return a missing item after another scan missed it, and what that scan decides."""
        if scan.rejected:
            return before, None
        if before.since is None:
            return Missing(at, before.last_seen), "expired" if has_ended else None
        is_confirmed = scan.started - before.since >= _CONFIRM
        return Missing(min(before.since, at), before.last_seen), "removed" if is_confirmed else None

    def _close(self, partition: Partition, scan: Scan, at: datetime) -> None:
        before = self.closed.get(partition)
        if scan.recent:
            assert before is not None, "a recent scan of a partition without a full scan"
            self.closed[partition] = replace(before, recent_at=at, covered_from=scan.feed.read_to)
            return
        share, is_posts = scan.share or spread(partition[0]), partition[1] == "posts"
        self.closed[partition] = completed(before, scan.feed, pages=scan.pages, at=at, share=share, is_posts=is_posts)

    def last_seen(self, key: Key) -> datetime:
        """Return when a scan last saw an item."""
        row = self.rows[key]
        if key in self.missing:
            return self.missing[key].last_seen
        closed = self.closed.get(key[:2])
        if closed is None or row.removed_at is not None:
            return row.written_at
        return max(row.written_at, closed.last_saw(published(row.payload)))

    def items_missing(self, partition: Partition) -> int:
        """Return how many items another scan must confirm as removed."""
        return sum(one.since is not None for key, one in self.missing.items() if key[:2] == partition)

    def known(self, partition: Partition) -> set[str]:
        """Return the ids that a closed scan has seen and that are not removed."""
        end = self.ended.get(partition, 0)
        return {
            key[2]
            for key, row in self.rows.items()
            if key[:2] == partition and row.removed_at is None and row.landed <= end
        }
