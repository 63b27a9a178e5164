"""What the warehouse must hold, told once more in plain Python: it knows events, and none of our code."""

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.model.accounts import Accounts

Where = tuple[str, str, str]
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Event:
    """A page received, or (without items) a scan given up. `aside` are places that must become no row."""

    where: Where
    scan_id: str
    started_at: datetime
    at: datetime
    page: int
    items: tuple[Any, ...] | None
    last: bool = False
    run_id: str = ""
    aside: tuple[int, ...] = ()


@dataclass
class Oracle:
    accounts: Accounts = field(default_factory=Accounts)
    media: dict[Key, dict[str, Any]] = field(default_factory=dict)
    scans: dict[Where, tuple[str, datetime]] = field(default_factory=dict)
    heard: int = 0
    began: dict[str, int] = field(default_factory=dict)
    ended: dict[Where, int] = field(default_factory=dict)
    written: dict[Key, int] = field(default_factory=dict)
    quarantine: dict[tuple[str, Where, str], tuple[int, int, datetime]] = field(default_factory=dict)
    missing: dict[Key, tuple[datetime | None, datetime]] = field(default_factory=dict)
    rejecting: set[str] = field(default_factory=set)
    undecided: dict[Where, datetime] = field(default_factory=dict)
    seen: dict[str, set[Key]] = field(default_factory=dict)
    superseded: list[tuple[Any, ...]] = field(default_factory=list)
    metrics: list[tuple[Any, ...]] = field(default_factory=list)
    fields: dict[tuple[str, str], datetime] = field(default_factory=dict)
    extras: set[str] = field(default_factory=set)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def hear(self, event: Event) -> None:
        self.heard += 1
        self.began.setdefault(event.scan_id, self.heard)
        if event.items is None:
            return
        self.counts[event.run_id, "pages"] += 1
        self.counts[event.run_id, "items"] += len(event.items)
        for place, item in enumerate(event.items):
            if event.where[0] == "accounts":
                self._account(event, place, item)
            else:
                self._item(event, place, item)
        if event.last and self.ended.get(event.where, 0) < self.began[event.scan_id]:
            (self._end_catalogue if event.where[0] == "accounts" else self._end_media)(event)
            self.scans[event.where] = (event.scan_id, event.at)
            self.ended[event.where] = self.heard

    def _rejected(self, reason: str, event: Event, place: int, item: object) -> None:
        text = json.dumps(item, separators=(",", ":"))
        if (reason, event.where, text) not in self.quarantine:
            self.quarantine[reason, event.where, text] = (event.page, place, event.at)
            self.counts[event.run_id, "quarantined"] += 1

    def _account(self, event: Event, place: int, item: dict[str, str]) -> None:
        if place in event.aside:
            self._rejected("broken", event, place, item)
            return
        self.accounts.see(item["id"], item, event.scan_id, self.heard, event.at)

    def _end_catalogue(self, event: Event) -> None:
        began = self.began[event.scan_id]
        removed = self.accounts.end(event.scan_id, began=began, started_at=event.started_at, at=event.at)
        self.counts[event.run_id, "accounts_removed"] += removed

    def _item(self, event: Event, place: int, item: dict[str, Any]) -> None:
        if "id" not in item:
            self._rejected("The item has no id that gramhouse knows.", event, place, item)
            self.rejecting.add(event.scan_id)
            return
        key = (event.where[1], event.where[2], str(item["id"]))
        self.seen.setdefault(event.scan_id, set()).add(key)
        self.missing.pop(key, None)
        known = self.media.get(key)
        gone = known is not None and known["removed_at"] is not None
        if known is None or gone or not same(known["payload"], item):
            self.counts[event.run_id, "added" if known is None else "returned" if gone else "changed"] += 1
        if known and same(known["payload"], item):
            if gone:
                known.update(removed_at=None, removal=None, written_at=event.at)
                self.written[key] = self.heard
            return
        self.written[key] = self.heard
        self._history(key, known, item, event.at)
        new_content = known is None or content(known["payload"]) != content(item)
        self.media[key] = {
            "payload": item,
            "first_seen_at": known["first_seen_at"] if known else event.at,
            "written_at": event.at,
            "changed_at": event.at,
            "content_changed_at": event.at if known is None or new_content else known["content_changed_at"],
            "removed_at": None,
            "removal": None,
        }

    def _history(self, key: Key, known: dict[str, Any] | None, item: dict[str, Any], at: datetime) -> None:
        if known is not None and content(known["payload"]) != content(item):
            self.superseded.append((*key, known["content_changed_at"], at, known["payload"]))
        before = counts(known["payload"]) if known else {}
        for metric, value in counts(item).items():
            if value != before.get(metric):
                self.metrics.append((*key, metric, value, at))
        for where in paths(item):
            self.fields.setdefault(where, at)
        if "extra" in item:
            self.extras.add(type(item["extra"]).__name__)

    def _end_media(self, event: Event) -> None:
        _, account_id, surface = event.where
        there = {
            key: row for key, row in self.media.items() if key[:2] == (account_id, surface) and not row["removed_at"]
        }
        known = {key for key in there if self.written[key] < self.began[event.scan_id]}
        missed = known - self.seen.get(event.scan_id, set())
        expired = {key for key, row in there.items() if surface == "stories" and story_age(row, event.at) >= DAY}
        known_before = sum(
            (row["first_seen_at"] < event.started_at or key in missed) and key not in expired
            for key, row in there.items()
        )
        newly = [key for key in missed - expired if self.missing.get(key, (None,))[0] is None]
        guarded = len(newly) > known_before / 2
        before = self.scans.get(event.where)
        rejects = event.scan_id in self.rejecting
        if not (missed and rejects):
            self.undecided.pop(event.where, None)
        for key in missed:
            row = there[key]
            last_seen = max(row["written_at"], before[1]) if before else row["written_at"]
            doubted, last_seen = self.missing.pop(key, (None, last_seen))
            if rejects:
                self.undecided.setdefault(event.where, event.at)
                self.missing[key] = (doubted, last_seen)
                continue
            since = doubted or event.at
            believed = not guarded if doubted is None else event.started_at - doubted >= timedelta(hours=1)
            if key in expired or believed:
                row.update(removed_at=since, written_at=last_seen, removal="expired" if key in expired else "removed")
                self.counts[event.run_id, row["removal"]] += 1
            else:
                self.missing[key] = (since, last_seen)


DAY = timedelta(hours=24)


def story_age(row: dict[str, Any], now: datetime) -> timedelta:
    return now - datetime.fromisoformat(row["payload"].get("timestamp") or row["first_seen_at"].isoformat())


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return (content(one), counts(one)) == (content(other), counts(other))


def whole(value: object) -> int | None:
    """A count, as a number or as text."""
    return int(str(value)) if str(value).isdigit() else None


def counts(item: dict[str, Any]) -> dict[str, int | None]:
    return {"like_count": whole(item.get("like_count")), "stats__saves": whole(item.get("stats", {}).get("saves"))}


def content(item: dict[str, Any]) -> dict[str, Any]:
    """What an item says without counts and without the address of its picture; null says nothing."""
    rest = {name: value for name, value in item.items() if name not in ("like_count", "stats", "url")}
    saves = item.get("stats", {}).get("saves")
    return {**rest, "saves": None if whole(saves) is not None else saves}


def paths(item: dict[str, Any]) -> list[tuple[str, str]]:
    """The table and the path of every field that an item and its children carry."""
    found = []
    for name, value in item.items():
        found.append(("media", f"/{name}"))
        if isinstance(value, dict):
            found += [("media", f"/{name}/{inner}") for inner in value]
    return found + [("media_children", f"/{name}") for child in children(item) for name in child]


def children(item: dict[str, Any]) -> list[dict[str, Any]]:
    return list(item.get("children", {}).get("data", ()))


def extra_type(kinds: set[str]) -> type[int] | type[str] | None:
    """What a column that has met these types of value holds; an object alone has no column, its fields do."""
    if kinds <= {"dict"}:
        return None
    return int if kinds == {"int"} else str
