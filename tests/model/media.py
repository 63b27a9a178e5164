"""The expected media after scans, in plain Python, without gramhouse's own code."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from tests.model.recent import Closed, Feed, Key, Missing, completed, is_covered, spread

Payload = dict[str, Any]
# Account and surface; both are empty for the catalogue.
Partition = tuple[str, str]

_DAY = timedelta(hours=24)


@dataclass
class Item:
    """An item; `payload` is that of its last change, and the `landed`th page of all wrote it last."""

    payload: Payload
    first_seen_at: datetime
    written_at: datetime
    changed_at: datetime
    content_changed_at: datetime
    landed: int
    removed_at: datetime | None = None
    removal: str | None = None


@dataclass(eq=False)
class Scan:
    """A scan; its first page was the `began`th of all to land.

    `rejects`: it contained a record without an id. `recent`: it ended at known posts. `feed` is the feed as read in
    its `pages` pages. `share`: see Checkpoint.
    """

    started: datetime
    began: int = 0
    seen: set[Key] = field(default_factory=set)
    rejects: bool = False
    recent: bool = False
    pages: int = 0
    share: float | None = None
    feed: Feed = field(default_factory=Feed)


@dataclass
class Media:
    """All items ever listed. `closed` are the last closed scans, `missing` the items that one of them missed.

    An item has changed unless it `is_same`; a change of `content` begins a new version.
    """

    content: Callable[[Payload], object]
    is_same: Callable[[Payload, Payload], bool]
    published: Callable[[Payload], datetime | None]
    rows: dict[Key, Item] = field(default_factory=dict)
    superseded: list[tuple[str, str, str, datetime, datetime, Payload]] = field(default_factory=list)
    missing: dict[Key, Missing] = field(default_factory=dict)
    undecided: dict[Partition, datetime] = field(default_factory=dict)
    closed: dict[Partition, Closed] = field(default_factory=dict)
    ended: dict[Partition, int] = field(default_factory=dict)

    def see(self, key: Key, payload: Payload, landed: int, at: datetime) -> Sequence[str]:
        """Process a listed item; return the counts it belongs to: added, or changed and returned."""
        self.missing.pop(key, None)
        row = self.rows.get(key)
        if row is None:
            self.rows[key] = Item(payload, at, at, at, at, landed)
            return ["added"]
        is_gone, is_same = row.removed_at is not None, self.is_same(row.payload, payload)
        if is_same and not is_gone:
            return []
        row.removed_at, row.removal, row.written_at, row.landed = None, None, at, landed
        if not is_same:
            if self.content(row.payload) != self.content(payload):
                self.superseded.append((*key, row.content_changed_at, at, row.payload))
                row.content_changed_at = at
            row.payload, row.changed_at = payload, at
        return [*(["returned"] if is_gone else []), *([] if is_same else ["changed"])]

    def is_overtaken(self, partition: Partition, began: int) -> bool:
        """Return whether another scan was closed since `began`, so that this scan decides nothing."""
        return self.ended.get(partition, 0) > began

    def end(self, partition: Partition, landed: int, scan: Scan, at: datetime) -> Counter[str]:
        """Close a scan with the `landed`th page; return the numbers of items marked as removed and expired.

        Items that it did not see are missing; for a recent scan, only those that it covered.
        """
        present = {
            key: row
            for key, row in self.rows.items()
            if key[:2] == partition
            and row.removed_at is None
            and (not scan.recent or is_covered(self.published(row.payload), scan.feed.read_to))
        }
        missed = [key for key, row in present.items() if row.landed < scan.began and key not in scan.seen]
        counts = Counter[str]()
        for key in missed:
            row, before = present[key], self.missing.pop(key, None) or Missing(None, self.last_seen(key))
            has_ended = partition[1] == "stories" and at - self._published_or_seen(row) >= _DAY
            missing, removal = before.after(started=scan.started, at=at, rejects=scan.rejects, has_ended=has_ended)
            if removal is None:
                self.missing[key] = missing
            else:
                row.removed_at, row.written_at, row.removal = missing.since, missing.last_seen, removal
                counts[removal] += 1
        if missed and scan.rejects:
            self.undecided.setdefault(partition, at)
        elif not scan.recent or all(one.since for key, one in self.missing.items() if key[:2] == partition):
            self.undecided.pop(partition, None)
        self._close(partition, scan, at)
        self.ended[partition] = landed
        return counts

    def _close(self, partition: Partition, scan: Scan, at: datetime) -> None:
        before = self.closed.get(partition)
        if scan.recent:
            assert before is not None, "a recent scan of a partition without a full scan"
            self.closed[partition] = replace(before, recent_at=at, covered_from=scan.feed.read_to)
            return
        share, is_posts = scan.share or spread(partition[0]), partition[1] == "posts"
        self.closed[partition] = completed(before, scan.feed, pages=scan.pages, at=at, share=share, is_posts=is_posts)

    def _published_or_seen(self, row: Item) -> datetime:
        return self.published(row.payload) or row.first_seen_at

    def last_seen(self, key: Key) -> datetime:
        """Return when a scan last saw an item."""
        row = self.rows[key]
        if key in self.missing:
            return self.missing[key].last_seen
        closed = self.closed.get(key[:2])
        if closed is None or row.removed_at is not None:
            return row.written_at
        return max(row.written_at, closed.last_saw(self.published(row.payload)))

    def items_missing(self, partition: Partition) -> int:
        """Return how many items another scan must confirm as removed."""
        return sum(one.since is not None for key, one in self.missing.items() if key[:2] == partition)

    def known(self, partition: Partition) -> dict[str, Item]:
        """Return the items that a closed scan has seen and that are not removed, by id."""
        end = self.ended.get(partition, 0)
        return {
            key[2]: row
            for key, row in self.rows.items()
            if key[:2] == partition and row.removed_at is None and row.landed <= end
        }
