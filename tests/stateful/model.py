"""The expected contents of a warehouse, computed from landed pages in plain Python, without gramhouse's own code."""

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.model import reading
from tests.model.accounts import Accounts
from tests.model.media import Media, Scan
from tests.model.recent import Feed

Where = tuple[str, str, str]
Row = tuple[Any, ...]
Tables = dict[str, list[Row]]
COUNTS = ("pages", "items", "accounts_removed", "added", "changed", "removed", "expired", "returned", "quarantined")


@dataclass(frozen=True)
class LandedPage:
    """A page that landed `at`, the `pages`th of its scan; `last`: it closes the scan.

    `recent`: the scan ended at known posts. `feed`: the feed as read so far. `share`: see Checkpoint.
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
    """Return canonical JSON."""
    return json.dumps(value, sort_keys=True)


def id_of(item: object) -> str | None:
    """Return an item's id as text; None if it has no valid id."""
    found = item.get("id") if isinstance(item, dict) else None
    return None if found is None or found == "" or isinstance(found, (dict, list)) else str(found)


def record_text(item: dict[str, Any]) -> str:
    """Return the text that identifies a rejected record: without its count and the signature of its URL."""
    rest = {name: value for name, value in item.items() if name != "like_count"}
    return text_of({**rest, "url": re.sub(r"oe=\w+", "", item.get("url", "none"))})


def content(item: dict[str, Any]) -> str:
    """Return an item's content: without its count and URL, and without null and empty values."""
    left = {name: value for name, value in item.items() if name not in ("id", "like_count", "url")}
    return text_of({name: value for name, value in left.items() if value is not None and value != []})


def likes(item: dict[str, Any] | None) -> int | None:
    """Return an item's like count."""
    output = item.get("like_count") if item else None
    return None if output is None else int(output)


def is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two versions of an item have the same content and counts."""
    return (content(one), likes(one)) == (content(other), likes(other))


def published(item: dict[str, Any]) -> datetime | None:
    """Return an item's publication time."""
    text = item.get("timestamp")
    return datetime.fromisoformat(text) if text else None


@dataclass
class Model:
    """The state after all merged pages."""

    accounts: Accounts = field(default_factory=Accounts)
    media: Media = field(default_factory=lambda: Media(content, is_same, published))
    metrics: list[Row] = field(default_factory=list)
    landed: int = 0
    scans: dict[str, Scan] = field(default_factory=dict)
    quarantine: dict[Row, Row] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def merge(self, page: LandedPage) -> None:
        """Merge a page."""
        self.landed += 1
        scan = self.scans.setdefault(page.scan_id, Scan(page.started_at, self.landed))
        scan.recent, scan.pages, scan.share, scan.feed = page.recent, page.pages, page.share, page.feed
        count = self.counts.setdefault(page.scan_id, Counter())
        count.update(pages=1, items=len(page.items))
        for item in page.items:
            if page.where[0] == "accounts":
                self.accounts.see(item["id"], item, page.scan_id, self.landed, page.at)
            elif id_of(item) is None:
                record = (*page.where, record_text(item) if isinstance(item, dict) else text_of(item))
                scan.rejects = True
                count["quarantined"] += record not in self.quarantine
                self.quarantine.setdefault(record, (*page.where, text_of(item)))
            else:
                self._see(page, scan, item)
        if page.last and not self.media.is_overtaken(page.where[1:], scan.began):
            if page.where[0] == "accounts":
                removed = self.accounts.end(began=scan.began, started_at=scan.started, at=page.at)
                count["accounts_removed"] += removed
            count.update(self.media.end(page.where[1:], self.landed, scan, page.at))

    def _see(self, page: LandedPage, scan: Scan, item: dict[str, Any]) -> None:
        key = (page.where[1], page.where[2], str(id_of(item)))
        scan.seen.add(key)
        before = self.media.rows.get(key)
        payload = before.payload if before else None
        self.counts[page.scan_id].update(self.media.see(key, item, self.landed, page.at))
        if likes(payload) != likes(item):
            self.metrics.append((*key, "like_count", likes(item), page.at))
        if payload is None or not is_same(payload, item):
            self.kinds |= {kind for path, _, kind in reading.leaves(item) if path == "/extra"}

    def known(self, where: Where, older_than: datetime) -> set[str]:
        """Return the posts older than a time that a closed scan has seen and that are not removed."""
        return {
            media_id
            for media_id, row in self.media.known(where[1:]).items()
            if (at := published(row.payload)) is not None and at < older_than
        }

    def tables(self, *, inside: bool) -> Tables:
        """Return every table as the snapshot must contain it, or with `inside` as the warehouse must."""
        by_run = {f"run of {scan}": [count[name] for name in COUNTS] for scan, count in self.counts.items()}
        if not inside and by_run:
            # These tests write no runs to the ledger, so the snapshot shows totals.
            by_run = {"totals": [sum(numbers) for numbers in zip(*by_run.values(), strict=True)]}
        rows, missing = self.media.rows, self.media.missing
        versions = [(*version, payload["caption"]) for *version, payload in self.media.superseded]
        present = [(*key, row.content_changed_at, None, row.payload["caption"]) for key, row in rows.items()]
        return {
            "accounts": [
                (one, row.ig_username, row.status, row.first_seen_at, row.last_seen_at, row.removed_at)
                for one, row in self.accounts.rows.items()
            ],
            "account_status_history": [tuple(period) for period in self.accounts.periods],
            "media": [
                (
                    *key,
                    text_of(row.payload),
                    row.payload["caption"],
                    likes(row.payload),
                    *(row.first_seen_at, row.written_at if inside else self.media.last_seen(key)),
                    *(row.changed_at, row.content_changed_at, row.removed_at, row.removal),
                )
                for key, row in rows.items()
            ],
            "media_history": [*versions, *present],
            "media_metrics": [*self.metrics],
            "completed_scans": [
                (
                    "media" if where[0] else "accounts",
                    *(*where, one.complete_at, self.media.undecided.get(where), one.recent_at, one.covered_from),
                    *(one.pages, "newest_first" if one.is_ordered else None, one.broken_by, one.share),
                )
                for where, one in self.media.closed.items()
            ],
            "quarantine": [*self.quarantine.values()],
            "run_counts": [(run_id, *numbers) for run_id, numbers in by_run.items()],
            **({"missing_accounts": [*self.accounts.missing.items()]} if inside else {}),
            **({"missing": [(*key, *doubt) for key, doubt in missing.items()]} if inside else {}),
        }
