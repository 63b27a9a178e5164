"""What the warehouse must hold after what was served, told in plain Python that knows none of our code."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.faults.answers import Page
from tests.faults.player import Served
from tests.faults.world import CATALOGUE, Item, Where

Key = tuple[str, str, str]
REQUIRED = {"id", "ig_username", "public_id", "status"}


@dataclass
class Scan:
    """A scan under way: what was there when it began, what it saw, the cursors of this run, where it goes on."""

    known: set[Key]
    seen: set[Key] = field(default_factory=set)
    trail: set[str] = field(default_factory=set)
    goes_on: str | None = None
    old: bool = False
    rejects: bool = False


@dataclass
class Model:
    media: dict[Key, Item] = field(default_factory=dict)
    gone: set[Key] = field(default_factory=set)
    superseded: list[tuple[Key, str]] = field(default_factory=list)
    accounts: dict[str, Item] = field(default_factory=dict)
    unlisted: set[str] = field(default_factory=set)
    aside: set[tuple[Where, str]] = field(default_factory=set)
    scans: dict[Where, Scan] = field(default_factory=dict)
    complete: set[Where] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    pages: Counter[Where] = field(default_factory=Counter)
    items: Counter[Where] = field(default_factory=Counter)

    def sync(self, served: Iterable[Served], *, late: bool = False) -> None:
        """Hear a run's requests in their order; `late`: scans begun before it are too old for their end to count."""
        self.complete, self.pages, self.items = set(), Counter(), Counter()
        half_way = self.scans.get(CATALOGUE)
        self.listed = {key[2] for key in half_way.seen} if half_way else set()
        for scan in self.scans.values():
            scan.trail.clear()
            scan.old |= late
        for one in served:
            self._hear(one)

    def _hear(self, one: Served) -> None:
        scan = self.scans.get(one.where)
        if one.cursor is None:
            assert scan is None or scan.goes_on is None, f"{one.where}: landed pages were asked for again"
            scan = self.scans[one.where] = Scan(self._there(one.where))
        assert scan is not None, f"{one.where}: a cursor of a scan that had ended"
        if one.cursor is not None:
            assert one.cursor == scan.goes_on, f"{one.where}: another cursor than the page before gave"
            scan.trail.add(one.cursor)
        if one.answer.code == "api_invalid_cursor":
            del self.scans[one.where]
        elif one.answer.page is not None:
            self._land(one.where, scan, one.answer.page)

    def _land(self, where: Where, scan: Scan, page: Page) -> None:
        if page.next_cursor in scan.trail:
            del self.scans[where]
            return
        self.pages[where] += 1
        self.items[where] += len(page.items)
        for item in page.items:
            key = self._account(item) if where == CATALOGUE else self._item(where, item)
            if key is None:
                self.aside.add((where, json.dumps(item, sort_keys=True)))
                scan.rejects = True
            else:
                scan.seen.add(key)
        scan.goes_on = page.next_cursor
        if page.next_cursor is not None:
            return
        del self.scans[where]
        if not scan.old:
            self.complete.add(where)
            self._end(where, scan)

    def _there(self, where: Where) -> set[Key]:
        if where == CATALOGUE:
            return {("", "", one) for one in self.accounts}
        return {key for key in self.media if key[:2] == where and key not in self.gone}

    def _account(self, item: Any) -> Key | None:  # noqa: ANN401 - any JSON
        if not isinstance(item, dict) or not item.keys() >= REQUIRED:
            return None
        self.accounts[item["id"]] = item
        self.unlisted.discard(item["id"])
        self.listed.add(item["id"])
        return ("", "", item["id"])

    def _item(self, where: Where, item: Any) -> Key | None:  # noqa: ANN401 - any JSON
        if not isinstance(item, dict) or "id" not in item:
            return None
        key = (*where, item["id"])
        before = self.media.get(key)
        if before is not None and before != item:
            self.superseded.append((key, json.dumps(before, sort_keys=True)))
        self.media[key] = item
        self.gone.discard(key)
        return key

    def _end(self, where: Where, scan: Scan) -> None:
        missed = scan.known - scan.seen
        if where == CATALOGUE:
            self.unlisted |= {key[2] for key in missed}
            return
        if scan.rejects:
            # It may have listed what it missed as the record that was rejected.
            return
        # Where most vanish nothing is marked, which no cell here is about.
        assert len(missed) * 2 <= len(scan.known)
        self.gone |= missed
