"""The expected contents of a warehouse, computed from landed pages in plain Python, without gramhouse's own code."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from models.mapping import BUILT_IN
from tests.model import media, reading
from tests.model.accounts import Accounts
from tests.model.contents import content
from tests.model.media import Media
from tests.model.reading import lasting
from tests.model.recent import Key, Listed
from tests.simulation.events import CATALOGUE, Partition

Item = dict[str, Any]
_PUBLISHED = next(column for column in BUILT_IN.columns if column.column == "published_at")
_IDS = BUILT_IN.media_id
_ACCOUNT = ("id", "ig_username", "public_id", "status")


def replace_lone_surrogates(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Replace lone surrogates, which cannot be stored as UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [replace_lone_surrogates(inner) for inner in value]
    return {key: replace_lone_surrogates(inner) for key, inner in value.items()} if isinstance(value, dict) else value


# Bytes that the sandbox's faults write where UTF-8 is expected, what they are in a parsed page, and in quarantine.
_NOT_UTF8, _UNREADABLE, _SHOWN = b"\xc3\x28\xff", "text that is not UTF-8", r"\xc3(\xff"


def is_readable(item: object) -> bool:
    """Return whether all texts of a record are UTF-8."""
    return not isinstance(item, dict) or _UNREADABLE not in item.values()


@lru_cache(maxsize=4096)
def parsed(body: bytes) -> Item:
    """Parse the page in a response body."""
    page = json.loads(body.replace(_NOT_UTF8, _UNREADABLE.encode()))
    return replace_lone_surrogates(page) if b"\\ud" in body else page  # type: ignore[no-any-return]


def id_of(item: object) -> str | None:
    """Return the id of an item; None if it has none."""
    found = (reading.at(item, path) for path in _IDS)
    return next((str(one) for one in found if one not in (None, "")), None)


@dataclass(eq=False, kw_only=True)
class Scan(media.Scan):
    """One scan of a partition, as the API saw it; `following` is the cursor of the next page.

    It began between `earliest` and `started`. `known_landed` is the landing that closed the scan whose known posts
    it may stop at; None for a full scan.
    """

    earliest: datetime
    begun_in: int
    day: int
    following: str | None = None
    closed: bool = False
    restarts: bool = False
    abandoned: bool = False
    ended_in: int = -1
    cursors: set[str] = field(default_factory=set)
    items: int = 0
    rejected: int = 0
    known_landed: int | None = None


@dataclass
class Model:
    """The state after all landed pages, in the order of landing."""

    accounts: Accounts = field(default_factory=Accounts)
    media: Media = field(default_factory=lambda: Media(content, is_same, published))
    sightings: dict[Key, list[tuple[Item, datetime]]] = field(default_factory=dict)
    last_returned: dict[Key, datetime] = field(default_factory=dict)
    landed: int = 0
    quarantine: dict[tuple[Partition, str], str] = field(default_factory=dict)
    counts: dict[int, Counter[str]] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)

    def land(
        self, day: int, scan: Scan, partition: Partition, body: bytes, at: datetime, *, has_cursor: bool = True
    ) -> None:
        """Land a page that process `day` received at time `at`; with the last page, the scan is closed."""
        self.landed += 1
        scan.began = scan.began or self.landed
        page = parsed(body)
        self.count = self.counts.setdefault(day, Counter())
        self.count.update(pages=1, items=len(page["items"]))
        scan.items += len(page["items"])
        for item in page["items"]:
            if partition == CATALOGUE:
                self._account(scan, item, at)
            else:
                self._item(scan, partition, item, at)
        if has_cursor and (page.get("next_cursor") is None or scan.recent):
            # A scan that rejected most records has seen too little: it is abandoned instead.
            if 2 * scan.rejected > scan.items:
                scan.abandoned = True
            else:
                self._end(scan, partition, at)

    def _account(self, scan: Scan, item: Any, at: datetime) -> None:  # noqa: ANN401 - any JSON
        if not is_account(item):
            scan.rejected += 1
            self._quarantine(CATALOGUE, item)
            known = str(item.get("id")) if isinstance(item, dict) else ""
            if known in self.accounts.rows:
                self.accounts.see_unreadable(known, scan, self.landed, at)
            return
        self.accounts.see(item["id"], item, scan, self.landed, at)

    def _item(self, scan: Scan, partition: Partition, item: Item, at: datetime) -> None:
        media_id = id_of(item) if is_readable(item) else None
        if media_id is None:
            self._quarantine(partition, item)
            scan.rejects = True
            scan.rejected += 1
            return
        key = (*partition, media_id)
        scan.seen.add(key)
        self.last_returned[key] = at
        before = self.media.rows.get(key)
        payload = before.payload if before else None
        self.count.update(self.media.see(key, item, self.landed, at))
        if payload is None or not is_same(payload, item):
            self.sightings.setdefault(key, []).append((item, at))

    def keep(self, partition: Partition, text: str) -> None:
        """Put an unreadable page into quarantine."""
        self.quarantine.setdefault((partition, text), text)

    def _quarantine(self, partition: Partition, item: Any) -> None:  # noqa: ANN401 - any JSON
        """Put a record into quarantine, unless one with the same content is there already."""
        if not is_readable(item):
            text = json.dumps(item).replace(_UNREADABLE, _SHOWN)
            self.quarantine.setdefault((partition, text), text)
            return
        text = json.dumps(item, sort_keys=True)
        self.quarantine.setdefault((partition, content(item) if isinstance(item, dict) else text), text)

    def _end(self, scan: Scan, partition: Partition, at: datetime) -> None:
        self.last_returned.update(dict.fromkeys(scan.seen, at))
        if self.media.is_overtaken(partition, scan.began):
            return
        if partition == CATALOGUE:
            self.count["accounts_removed"] += self.accounts.end(began=scan.began, started_at=scan.started, at=at)
        self.count.update(self.media.end(partition, self.landed, scan, at))


def is_same(one: Item, other: Item) -> bool:
    """Return whether two versions of an item are equal apart from media URLs."""
    return bool(lasting(one) == lasting(other))


def listed(items: Iterable[Any]) -> list[Listed]:
    """Return the ids and publication times of a page's items."""
    objects = (item if isinstance(item, dict) and is_readable(item) else {} for item in items)
    return [(id_of(item), reading.canonical(item, _PUBLISHED)) for item in objects]


def published(item: Item) -> datetime | None:
    """Return an item's publication time."""
    found = reading.canonical(item, _PUBLISHED)
    assert found is None or isinstance(found, datetime)
    return found


def is_account(item: object) -> bool:
    """Return whether a record is a valid account; the sandbox's faults produce accounts that are not."""
    if not isinstance(item, dict) or not is_readable(item) or any(name not in item for name in _ACCOUNT):
        return False
    return "host" not in str(item["public_id"]) and not str(item["ig_username"]).startswith("half an emoji")
