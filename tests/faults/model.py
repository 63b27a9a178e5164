"""The expected contents of the warehouse after the served pages, in plain Python, without gramhouse's own code."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from operator import eq
from typing import Any

from tests.faults.fake_api import ServedRequest
from tests.faults.replies import Page
from tests.faults.world import CATALOGUE, Item, Where
from tests.model.accounts import Accounts
from tests.model.media import Media, Scan
from tests.model.recent import Key

REQUIRED = {"id", "ig_username", "public_id", "status"}


def _text(item: object) -> str:
    return json.dumps(item, sort_keys=True)


def _published(item: Item) -> datetime | None:
    return datetime.fromisoformat(item["timestamp"]) if "timestamp" in item else None


@dataclass(eq=False)
class OpenScan(Scan):
    """A scan with its cursors in this run, and its next cursor."""

    cursors: set[str] = field(default_factory=set)
    next_cursor: str | None = None
    old: bool = False


@dataclass
class Model:
    """The state after all landed pages. Items have no counts, so every difference is a new version."""

    media: Media = field(default_factory=lambda: Media(_text, eq, _published))
    accounts: Accounts = field(default_factory=Accounts)
    landed: int = 0
    quarantined: set[tuple[Where, str]] = field(default_factory=set)
    scans: dict[Where, OpenScan] = field(default_factory=dict)
    complete: set[Where] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    pages: Counter[Where] = field(default_factory=Counter)
    items: Counter[Where] = field(default_factory=Counter)

    def sync(self, served: Iterable[ServedRequest], *, late: bool = False) -> None:
        """Process a run's requests in order; `late`: scans begun before it are too old to count when they end."""
        self.complete, self.pages, self.items = set(), Counter(), Counter()
        half_way = self.scans.get(CATALOGUE)
        self.listed = {key[2] for key in half_way.seen} if half_way else set()
        for scan in self.scans.values():
            scan.cursors.clear()
            scan.old |= late
        for one in served:
            self._process(one)

    def _process(self, one: ServedRequest) -> None:
        scan = self.scans.get(one.where)
        if one.cursor is None:
            assert scan is None or scan.next_cursor is None, f"{one.where}: landed pages were requested again"
            scan = self.scans[one.where] = OpenScan(one.at)
        assert scan is not None, f"{one.where}: the cursor of a closed scan"
        if one.cursor is not None:
            assert one.cursor == scan.next_cursor, f"{one.where}: not the next cursor of the page before"
            scan.cursors.add(one.cursor)
        if one.reply.code == "api_invalid_cursor":
            del self.scans[one.where]
        elif one.reply.page is not None:
            self._land(one.where, scan, one.reply.page, one.at)

    def _land(self, where: Where, scan: OpenScan, page: Page, at: datetime) -> None:
        self.landed += 1
        scan.began = scan.began or self.landed
        self.pages[where] += 1
        self.items[where] += len(page.items)
        for item in page.items:
            key = self._account(scan, item, at) if where == CATALOGUE else self._item(where, item, at)
            if key is None:
                self.quarantined.add((where, _text(item)))
                scan.rejects = True
            else:
                scan.seen.add(key)
        is_repeated, scan.next_cursor = page.next_cursor in scan.cursors, page.next_cursor
        if page.next_cursor is not None and not is_repeated:
            return
        del self.scans[where]
        if page.is_last and not is_repeated and not scan.old:
            self.complete.add(where)
            self._end(where, scan, at)

    def _account(self, scan: OpenScan, item: Any, at: datetime) -> Key | None:  # noqa: ANN401 - any JSON
        if not isinstance(item, dict) or not item.keys() >= REQUIRED:
            return None
        self.accounts.see(item["id"], item, scan, self.landed, at)
        self.listed.add(item["id"])
        return (*CATALOGUE, item["id"])

    def _item(self, where: Where, item: Any, at: datetime) -> Key | None:  # noqa: ANN401 - any JSON
        if not isinstance(item, dict) or "id" not in item:
            return None
        key = (*where, item["id"])
        self.media.see(key, item, self.landed, at)
        return key

    def _end(self, where: Where, scan: OpenScan, at: datetime) -> None:
        if where == CATALOGUE:
            self.accounts.end(began=scan.began, started_at=scan.started, at=at)
        else:
            self.media.end(where, self.landed, scan, at)
