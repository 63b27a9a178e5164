"""What a warehouse must hold, from what was served and had landed: told in plain Python, knowing none of our code."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from models.schema.mapping_built_in import BUILT_IN
from tests.e2e import reading
from tests.e2e.nights import content
from tests.e2e.reading import lasting
from tests.model.accounts import Accounts
from tests.simulation.events import CATALOGUE, Partition
from tests.simulation.recent import Closed, Feed, Key, Listed, Look, Missing, completed, is_covered, spread

Item = dict[str, Any]
_PUBLISHED = next(column for column in BUILT_IN.columns if column.column == "published_at")
_IDS = BUILT_IN.media_id
_DAY = timedelta(hours=24)
_ACCOUNT = ("id", "ig_username", "public_id", "status")


def whole_text(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """A value with half surrogate pairs replaced, as no file can hold them."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [whole_text(inner) for inner in value]
    return {key: whole_text(inner) for key, inner in value.items()} if isinstance(value, dict) else value


@lru_cache(maxsize=4096)
def parsed(body: bytes) -> Item:
    """The page in a body."""
    page = json.loads(body)
    return whole_text(page) if b"\\ud" in body else page  # type: ignore[no-any-return]


def id_of(item: object) -> str | None:
    """An item's id, if it has one."""
    found = (reading.at(item, path) for path in _IDS)
    return next((str(one) for one in found if one not in (None, "")), None)


@dataclass(eq=False)
class Scan:
    """One scan of a partition, as the service saw it: `following` is the cursor of the page that is next.

    It began between `earliest` and `started`. `known_landed` is the landing that closed what it may stop at; None: it
    is full. `share` is that of the refresh interval after which the next full scan is due.
    """

    started: datetime
    earliest: datetime
    begun_in: int
    night: int
    following: str | None = None
    pages: int = 0
    over: bool = False
    dead: bool = False
    given_up: bool = False
    ended_in: int = -1
    cursors: set[str] = field(default_factory=set)
    seen: set[Key] = field(default_factory=set)
    began: int = 0
    rejects: bool = False
    feed: Feed = field(default_factory=Feed)
    known_landed: int | None = None
    share: float = 0.0
    recent: bool = False


@dataclass
class Model:
    """All that landed, page by page, in the order of landing."""

    accounts: Accounts = field(default_factory=Accounts)
    media: dict[Key, dict[str, Any]] = field(default_factory=dict)
    superseded: list[tuple[Any, ...]] = field(default_factory=list)
    sightings: dict[Key, list[tuple[Item, datetime]]] = field(default_factory=dict)
    missing: dict[Key, Missing] = field(default_factory=dict)
    undecided: dict[Partition, datetime] = field(default_factory=dict)
    closed: dict[Partition, Closed] = field(default_factory=dict)
    vouched: dict[Key, datetime] = field(default_factory=dict)
    landed: int = 0
    end_landed: dict[Partition, int] = field(default_factory=dict)
    quarantine: dict[tuple[Partition, str], str] = field(default_factory=dict)
    counts: dict[int, Counter[str]] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)

    def land(self, night: int, scan: Scan, partition: Partition, body: bytes, at: datetime) -> None:
        """A page has landed in a process, which was received `at`; with it a recent scan is closed, or not."""
        self.landed += 1
        scan.began = scan.began or self.landed
        page = parsed(body)
        self.count = self.counts.setdefault(night, Counter())
        self.count.update(pages=1, items=len(page["items"]))
        for item in page["items"]:
            if partition == CATALOGUE:
                self._account(scan, item, at)
            else:
                self._item(scan, partition, item, at)
        if page["next_cursor"] is None or scan.recent:
            self._end(scan, partition, at)

    def _account(self, scan: Scan, item: Any, at: datetime) -> None:  # noqa: ANN401 - any JSON
        if not is_account(item):
            self._quarantine(CATALOGUE, item)
            known = str(item.get("id")) if isinstance(item, dict) else ""
            if known in self.accounts.rows:
                self.accounts.see_unreadable(known, scan, self.landed, at)
            return
        self.accounts.see(item["id"], item, scan, self.landed, at)

    def _item(self, scan: Scan, partition: Partition, item: Item, at: datetime) -> None:
        media_id = id_of(item)
        if media_id is None:
            self._quarantine(partition, item)
            scan.rejects = True
            return
        key = (*partition, media_id)
        scan.seen.add(key)
        self.vouched[key] = at
        self.missing.pop(key, None)
        known = self.media.get(key)
        gone = known is not None and known["removed_at"] is not None
        if known is None or gone or lasting(known["payload"]) != lasting(item):
            self.count["added" if known is None else "returned" if gone else "changed"] += 1
        if known is None:
            row = {"first_seen_at": at, "content_changed_at": at}
        elif lasting(known["payload"]) == lasting(item):
            if known["removed_at"] is not None:
                known.update(removed_at=None, removal=None, written_at=at, landed=self.landed)
            return
        else:
            row = {name: known[name] for name in ("first_seen_at", "content_changed_at")}
            if content(known["payload"]) != content(item):
                self.superseded.append((*key, known["content_changed_at"], at, known["payload"]))
                row["content_changed_at"] = at
        self.sightings.setdefault(key, []).append((item, at))
        self.media[key] = {
            **row, "payload": item, "written_at": at, "changed_at": at, "removed_at": None, "removal": None,
            "landed": self.landed,
        }  # fmt: skip

    def keep(self, partition: Partition, text: str) -> None:
        """A page that could not be read has landed in a process."""
        self.quarantine.setdefault((partition, text), text)

    def _quarantine(self, partition: Partition, item: Any) -> None:  # noqa: ANN401 - any JSON
        """A record whose content came before is the same, and stays as it was."""
        text = json.dumps(item, sort_keys=True)
        self.quarantine.setdefault((partition, content(item) if isinstance(item, dict) else text), text)

    def _end(self, scan: Scan, partition: Partition, at: datetime) -> None:
        self.vouched.update(dict.fromkeys(scan.seen, at))
        before = self.closed.get(partition)
        if self.end_landed.get(partition, 0) > scan.began:
            return
        self.end_landed[partition] = self.landed
        if partition == CATALOGUE:
            self.count["accounts_removed"] += self.accounts.end(scan, began=scan.began, started_at=scan.started, at=at)
        else:
            self._miss(scan, partition, at)
        if scan.recent:
            assert before is not None, "a recent scan of what was never scanned in full"
            self.closed[partition] = replace(before, recent_at=at, covered_from=scan.feed.read_to)
        else:
            share = scan.share or spread(partition[0])
            is_posts = partition[1] == "posts"
            self.closed[partition] = completed(
                before, scan.feed, pages=scan.pages, at=at, share=share, is_posts=is_posts
            )

    def _miss(self, scan: Scan, partition: Partition, at: datetime) -> None:
        """Mark what a closed scan did not see; a recent one says it of what it covered, at the second look."""
        covered_from = scan.feed.read_to
        there = {
            key: row
            for key, row in self.media.items()
            if key[:2] == partition
            and row["removed_at"] is None
            and (not scan.recent or is_covered(published(row), covered_from))
        }
        missed = [key for key, row in there.items() if row["landed"] < scan.began and key not in scan.seen]
        old = {key for key, row in there.items() if partition[1] == "stories" and at - _born(row) >= _DAY}
        known = sum(
            (row["first_seen_at"] < scan.started or key in missed) and key not in old for key, row in there.items()
        )
        before = {key: self.missing.pop(key, Missing(None, self.last_seen(key), needs_full=False)) for key in missed}
        look = Look(scan.started, at, scan.recent, scan.rejects, known, old)
        self.missing.update(look.doubted(before))
        for key, since in look.gone(before).items():
            removal = "expired" if key in old else "removed"
            there[key].update(removed_at=since, written_at=before[key].last_seen, removal=removal)
            self.count[removal] += 1
        if missed and scan.rejects:
            self.undecided.setdefault(partition, at)
        elif not scan.recent or all(one.since for key, one in self.missing.items() if key[:2] == partition):
            self.undecided.pop(partition, None)

    def needs_full(self, partition: Partition) -> bool:
        """Whether removals are pending that only a full scan decides."""
        return any(one.needs_full for key, one in self.missing.items() if key[:2] == partition)

    def known(self, partition: Partition) -> set[str]:
        """The posts that a closed scan has seen, and that are not gone."""
        end = self.end_landed.get(partition, 0)
        return {
            key[2]
            for key, row in self.media.items()
            if key[:2] == partition and row["removed_at"] is None and row["landed"] <= end
        }

    def last_seen(self, key: Key) -> datetime:
        """When a scan last saw an item, as far as is known."""
        row = self.media[key]
        written: datetime = row["written_at"]
        if row["removed_at"] is not None:
            return written
        if key in self.missing:
            return self.missing[key].last_seen
        closed = self.closed.get(key[:2])
        return max(written, closed.last_saw(published(row))) if closed else written


def listed(items: Iterable[Any]) -> list[Listed]:
    """The ids and times of a page's items."""
    objects = (item if isinstance(item, dict) else {} for item in items)
    return [(id_of(item), reading.canonical(item, _PUBLISHED)) for item in objects]


def published(row: dict[str, Any]) -> datetime | None:
    """When an item of the model says that it was published."""
    found = reading.canonical(row["payload"], _PUBLISHED)
    assert found is None or isinstance(found, datetime)
    return found


def _born(row: dict[str, Any]) -> datetime:
    found = published(row) or row["first_seen_at"]
    assert isinstance(found, datetime)
    return found


def is_account(item: object) -> bool:
    """Tell whether the sandbox left an account as it was: its ghost never is one, and a spoilt name is none."""
    if not isinstance(item, dict) or any(name not in item for name in _ACCOUNT):
        return False
    return "host" not in str(item["public_id"]) and not str(item["ig_username"]).startswith("half an emoji")
