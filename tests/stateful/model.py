"""What a warehouse must hold, in dicts: told by pages that landed, in their order, and knowing none of our code."""

import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from tests.e2e import reading
from tests.model.accounts import Accounts
from tests.simulation.recent import Closed, Feed, Look, Missing, completed, is_covered, spread

Where = tuple[str, str, str]
Key = tuple[str, str, str]
Row = tuple[Any, ...]
Tables = dict[str, list[Row]]
_DAY = timedelta(hours=24)
COUNTS = ("pages", "items", "accounts_removed", "added", "changed", "removed", "expired", "returned", "quarantined")


@dataclass(frozen=True)
class Heard:
    """A page that landed `at`: the last one of its scan, or not; the `pages`th, by which `feed` was read so far.

    `recent`: the scan ended in known territory. `share`: see Checkpoint.
    """

    where: Where
    scan_id: str
    started_at: datetime
    at: datetime
    items: tuple[Any, ...]
    last: bool
    recent: bool = False
    pages: int = 0
    share: float | None = None
    feed: Feed = field(default_factory=Feed)


def text_of(value: object) -> str:
    """JSON in one spelling."""
    return json.dumps(value, sort_keys=True)


def id_of(item: object) -> str | None:
    """An item's id as text, if it is one."""
    found = item.get("id") if isinstance(item, dict) else None
    return None if found is None or found == "" or isinstance(found, (dict, list)) else str(found)


def record_text(item: dict[str, Any]) -> str:
    """What makes a rejected record the same as another: its text without its count and the signature of its URL."""
    rest = {name: value for name, value in item.items() if name != "like_count"}
    return text_of({**rest, "url": re.sub(r"oe=\w+", "", item.get("url", "none"))})


def content(item: dict[str, Any]) -> str:
    """What an item says without its count and the address of its picture; null and what is empty say nothing."""
    left = {name: value for name, value in item.items() if name not in ("id", "like_count", "url")}
    return text_of({name: value for name, value in left.items() if value is not None and value != []})


def likes(item: dict[str, Any] | None) -> int | None:
    """How many likes an item says it has."""
    output = item.get("like_count") if item else None
    return None if output is None else int(output)


def _published(row: dict[str, Any]) -> datetime | None:
    text = row["item"].get("timestamp")
    return datetime.fromisoformat(text) if text else None


def _born(row: dict[str, Any]) -> datetime:
    first: datetime = row["first"]
    return _published(row) or first


@dataclass
class Model:
    """All that was merged, by key. `closed` are the last closed scans, `doubt` what only one of them has missed."""

    accounts: Accounts = field(default_factory=Accounts)
    media: dict[Key, dict[str, Any]] = field(default_factory=dict)
    versions: list[Row] = field(default_factory=list)
    metrics: list[Row] = field(default_factory=list)
    closed: dict[Where, Closed] = field(default_factory=dict)
    landed: int = 0
    began: dict[str, int] = field(default_factory=dict)
    ended: dict[Where, int] = field(default_factory=dict)
    doubt: dict[Key, Missing] = field(default_factory=dict)
    rejecting: set[str] = field(default_factory=set)
    undecided: dict[Where, datetime] = field(default_factory=dict)
    seen: dict[str, set[Key]] = field(default_factory=dict)
    quarantine: dict[Row, Row] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def merge(self, page: Heard) -> None:
        """Take a page's items in, and what its end says."""
        self.landed += 1
        self.began.setdefault(page.scan_id, self.landed)
        count = self.counts.setdefault(page.scan_id, Counter())
        count.update(pages=1, items=len(page.items))
        for item in page.items:
            if page.where[0] == "accounts":
                self.accounts.see(item["id"], item, page.scan_id, self.landed, page.at)
            elif id_of(item) is None:
                record = (*page.where, record_text(item) if isinstance(item, dict) else text_of(item))
                self.rejecting.add(page.scan_id)
                count["quarantined"] += record not in self.quarantine
                self.quarantine.setdefault(record, (*page.where, text_of(item)))
            else:
                self._see(page, item)
        # A scan that another one of its partition overtook says nothing of what is gone.
        if page.last and self.ended.get(page.where, 0) < self.began[page.scan_id]:
            (self._unlist if page.where[0] == "accounts" else self._miss)(page)
            self._close(page)
            self.ended[page.where] = self.landed

    def _close(self, page: Heard) -> None:
        before = self.closed.get(page.where)
        if page.recent:
            assert before is not None, "a recent scan of what was never scanned in full"
            self.closed[page.where] = replace(before, recent_at=page.at, covered_from=page.feed.read_to)
        else:
            share, is_posts = page.share or spread(page.where[1]), page.where[2] == "posts"
            self.closed[page.where] = completed(
                before, page.feed, pages=page.pages, at=page.at, share=share, is_posts=is_posts
            )

    def _unlist(self, page: Heard) -> None:
        began = self.began[page.scan_id]
        removed = self.accounts.end(page.scan_id, began=began, started_at=page.started_at, at=page.at)
        self.counts[page.scan_id]["accounts_removed"] += removed

    def _see(self, page: Heard, item: dict[str, Any]) -> None:
        key = (page.where[1], page.where[2], str(id_of(item)))
        self.seen.setdefault(page.scan_id, set()).add(key)
        self.doubt.pop(key, None)
        row = self.media.get(key)
        gone = row is not None and row["removed"] is not None
        is_same = row is not None and (content(row["item"]), likes(row["item"])) == (content(item), likes(item))
        if gone or not is_same:
            self.counts[page.scan_id]["added" if row is None else "returned" if gone else "changed"] += 1
        if row is None:
            row = self.media[key] = {"first": page.at, "item": None, "removed": None}
        elif is_same:
            if row["removed"] is not None:
                row.update(removed=None, removal=None, written=page.at, landed=self.landed)
            return
        output = row["item"]
        if output is None or content(output) != content(item):
            if output is not None:
                self.versions.append((*key, row["content"], page.at, output["caption"]))
            row["content"] = page.at
        if likes(output) != likes(item):
            self.metrics.append((*key, "like_count", likes(item), page.at))
        self.kinds |= {kind for path, _, kind in reading.leaves(item) if path == "/extra"}
        row.update(item=item, written=page.at, changed=page.at, removed=None, removal=None, landed=self.landed)

    def _miss(self, page: Heard) -> None:
        there = {
            key: row
            for key, row in self.media.items()
            if key[:2] == page.where[1:]
            and not row["removed"]
            and (not page.recent or is_covered(_published(row), page.feed.read_to))
        }
        seen = self.seen.get(page.scan_id, set())
        missed = [key for key, row in there.items() if key not in seen and row["landed"] < self.began[page.scan_id]]
        old = {key for key, row in there.items() if page.where[2] == "stories" and page.at - _born(row) >= _DAY}
        known = sum((row["first"] < page.started_at or key in missed) and key not in old for key, row in there.items())
        rejects = page.scan_id in self.rejecting
        doubts = {key: self.doubt.pop(key, Missing(None, self.last_seen(key), needs_full=False)) for key in missed}
        look = Look(page.started_at, page.at, page.recent, rejects, known, old)
        self.doubt.update(look.doubted(doubts))
        for key, since in look.gone(doubts).items():
            removal = "expired" if key in old else "removed"
            there[key].update(removed=since, removal=removal, written=doubts[key].last_seen)
            self.counts[page.scan_id][removal] += 1
        if missed and rejects:
            self.undecided.setdefault(page.where, page.at)
        elif not page.recent or all(one.since for key, one in self.doubt.items() if key[:2] == page.where[1:]):
            self.undecided.pop(page.where, None)

    def needs_full(self, where: Where) -> bool:
        """Whether removals are pending that only a full scan decides."""
        return any(one.needs_full for key, one in self.doubt.items() if key[:2] == where[1:])

    def known(self, where: Where, older_than: datetime) -> set[str]:
        """The posts of before a time that a closed scan has seen, and that are not gone."""
        return {
            key[2]
            for key, row in self.media.items()
            if key[:2] == where[1:] and not row["removed"] and row["landed"] <= self.ended.get(where, 0)
            if (at := _published(row)) is not None and at < older_than
        }

    def last_seen(self, key: Key) -> datetime:
        """When an item was there for the last time, as far as is known."""
        row = self.media[key]
        written: datetime = row["written"]
        if key in self.doubt:
            return self.doubt[key].last_seen
        closed = self.closed.get(("media", *key[:2]))
        return written if closed is None or row["removed"] else max(written, closed.last_saw(_published(row)))

    def tables(self, *, inside: bool) -> Tables:
        """Every table, as a snapshot must show it; `inside` the warehouse an item has the time of its last writing."""
        by_run = {f"run of {scan}": [count[name] for name in COUNTS] for scan, count in self.counts.items()}
        if not inside and by_run:
            # No run is in the ledger.
            by_run = {"totals": [sum(numbers) for numbers in zip(*by_run.values(), strict=True)]}
        present = [(*key, row["content"], None, row["item"]["caption"]) for key, row in self.media.items()]
        return {
            "accounts": [
                (one, row.ig_username, row.status, row.first_seen_at, row.last_seen_at, row.removed_at)
                for one, row in self.accounts.rows.items()
            ],
            "account_status_history": [tuple(period) for period in self.accounts.periods],
            "media": [
                (
                    *key,
                    text_of(row["item"]),
                    row["item"]["caption"],
                    likes(row["item"]),
                    *(row["first"], row["written"] if inside else self.last_seen(key), row["changed"], row["content"]),
                    *(row["removed"], row["removal"]),
                )
                for key, row in self.media.items()
            ],
            "media_history": [*self.versions, *present],
            "media_metrics": [*self.metrics],
            "completed_scans": [
                (
                    *(*where, one.complete_at, self.undecided.get(where), one.recent_at, one.covered_from, one.pages),
                    *("newest_first" if one.is_ordered else None, one.broken_by, one.share),
                )
                for where, one in self.closed.items()
            ],
            "quarantine": [*self.quarantine.values()],
            "run_counts": [(run_id, *numbers) for run_id, numbers in by_run.items()],
            **({"missing_accounts": [(one, *doubt) for one, doubt in self.accounts.missing.items()]} if inside else {}),
            **({"missing": [(*key, *doubt) for key, doubt in self.doubt.items()]} if inside else {}),
        }
