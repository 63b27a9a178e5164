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


@dataclass
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

    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)
    periods: dict[str, list[list[Any]]] = field(default_factory=dict)
    media: dict[Key, dict[str, Any]] = field(default_factory=dict)
    superseded: list[tuple[Any, ...]] = field(default_factory=list)
    sightings: dict[Key, list[tuple[Item, datetime]]] = field(default_factory=dict)
    missing_accounts: dict[str, tuple[datetime, datetime | None]] = field(default_factory=dict)
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
            known = self.accounts.get(str(item.get("id"))) if isinstance(item, dict) else None
            if known is not None:
                # It was listed all the same.
                known.update(scan=scan, landed=self.landed, last_seen_at=at, removed_at=None)
                self._listed(str(item["id"]), known["status"], at)
                self._since(str(item["id"]))
            return
        known = self.accounts.get(item["id"])
        self._listed(item["id"], item["status"], at)
        self.accounts[item["id"]] = {
            "ig_username": item["ig_username"],
            "public_id": item["public_id"],
            "status": item["status"],
            "token_expired_since": None,
            "first_seen_at": known["first_seen_at"] if known else at,
            "last_seen_at": at,
            "removed_at": None,
            "scan": scan,
            "landed": self.landed,
        }
        self._since(item["id"])

    def _listed(self, account_id: str, status: str, at: datetime) -> None:
        self.missing_accounts.pop(account_id, None)
        periods = self.periods.setdefault(account_id, [])
        if not periods or periods[-1][0] != status:
            if periods:
                periods[-1][2] = at
            periods.append([status, at, None])

    def _since(self, account_id: str) -> None:
        account, period = self.accounts[account_id], self.periods[account_id][-1]
        account["token_expired_since"] = period[1] if account["status"] == "token_expired" else None

    def _unlist(self, scan: Scan, at: datetime) -> None:
        there = {one: row for one, row in self.accounts.items() if row["removed_at"] is None}
        listed = {one for one, row in self.accounts.items() if row["scan"] is scan}
        missed = [one for one in there if there[one]["landed"] < scan.began]
        waited = {one: self.missing_accounts.pop(one, (at, None)) for one in missed}
        sure = [
            one
            for one, (since, begun) in waited.items()
            if listed and begun is not None and begun + timedelta(hours=12) <= scan.started
            if since + timedelta(hours=1) <= scan.started
        ]
        known = [one for one, row in there.items() if row["first_seen_at"] < scan.started or one in missed]
        known = [one for one in known if one not in sure]
        unsure = [one for one in missed if one not in sure]
        if unsure and (len(unsure) == len(known) or (len(unsure) >= 2 and len(unsure) / len(known) > 0.1)):
            for one in unsure:
                since, begun = waited[one]
                self.missing_accounts[one] = (since, begun or (scan.started if listed else None))
        else:
            sure = missed
        self.count["accounts_removed"] += len(sure)
        for one in sure:
            there[one]["removed_at"] = self.periods[one][-1][2] = waited[one][0]
            self.periods[one].append(["removed", waited[one][0], None])

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
            self._unlist(scan, at)
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
