"""The expected contents of the warehouse, computed from events in plain Python, without gramhouse's own code."""

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.model.accounts import Accounts
from tests.model.media import End, Media

Where = tuple[str, str, str]
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Event:
    """A landed page, or (without items) an abandoned scan. `rejected` are the positions of invalid records."""

    where: Where
    scan_id: str
    started_at: datetime
    at: datetime
    page: int
    items: tuple[Any, ...] | None
    last: bool = False
    run_id: str = ""
    rejected: tuple[int, ...] = ()


@dataclass
class Oracle:
    accounts: Accounts = field(default_factory=Accounts)
    media: Media = field(default_factory=lambda: Media(content, same, published))
    scans: dict[Where, str] = field(default_factory=dict)
    landed: int = 0
    began: dict[str, int] = field(default_factory=dict)
    quarantine: dict[tuple[str, Where, str], tuple[int, int, datetime]] = field(default_factory=dict)
    rejecting: set[str] = field(default_factory=set)
    seen: dict[str, set[Key]] = field(default_factory=dict)
    metrics: list[tuple[Any, ...]] = field(default_factory=list)
    fields: dict[tuple[str, str], datetime] = field(default_factory=dict)
    extras: set[str] = field(default_factory=set)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def apply(self, event: Event) -> None:
        self.landed += 1
        self.began.setdefault(event.scan_id, self.landed)
        if event.items is None:
            return
        self.counts[event.run_id, "pages"] += 1
        self.counts[event.run_id, "items"] += len(event.items)
        for place, item in enumerate(event.items):
            if event.where[0] == "accounts":
                self._account(event, place, item)
            else:
                self._item(event, place, item)
        if event.last and not self.media.is_overtaken(event.where[1:], self.began[event.scan_id]):
            self._end(event)

    def _rejected(self, reason: str, event: Event, place: int, item: object) -> None:
        text = json.dumps(item, separators=(",", ":"))
        if (reason, event.where, text) not in self.quarantine:
            self.quarantine[reason, event.where, text] = (event.page, place, event.at)
            self.counts[event.run_id, "quarantined"] += 1

    def _account(self, event: Event, place: int, item: dict[str, str]) -> None:
        if place in event.rejected:
            self._rejected("broken", event, place, item)
            return
        self.accounts.see(item["id"], item, event.scan_id, self.landed, event.at)

    def _end(self, event: Event) -> None:
        began, scan = self.began[event.scan_id], event.scan_id
        if event.where[0] == "accounts":
            removed = self.accounts.end(began=began, started_at=event.started_at, at=event.at)
            self.counts[event.run_id, "accounts_removed"] += removed
        end = End(began, event.started_at, event.at, self.seen.get(scan, ()), scan in self.rejecting)
        for removal, count in self.media.end(event.where[1:], self.landed, end).items():
            self.counts[event.run_id, removal] += count
        self.scans[event.where] = scan

    def _item(self, event: Event, place: int, item: dict[str, Any]) -> None:
        if "id" not in item:
            self._rejected("The item has no id that gramhouse knows.", event, place, item)
            self.rejecting.add(event.scan_id)
            return
        key = (event.where[1], event.where[2], str(item["id"]))
        self.seen.setdefault(event.scan_id, set()).add(key)
        before = self.media.rows.get(key)
        payload = before.payload if before else None
        if (what := self.media.see(key, item, self.landed, event.at)) is not None:
            self.counts[event.run_id, what] += 1
        if payload is None or not same(payload, item):
            self._note(key, payload or {}, item, event.at)

    def _note(self, key: Key, before: dict[str, Any], item: dict[str, Any], at: datetime) -> None:
        told = counts(before) if before else {}
        for metric, value in counts(item).items():
            if value != told.get(metric):
                self.metrics.append((*key, metric, value, at))
        for where in paths(item):
            self.fields.setdefault(where, at)
        if "extra" in item:
            self.extras.add(type(item["extra"]).__name__)


def published(item: dict[str, Any]) -> datetime | None:
    return datetime.fromisoformat(item["timestamp"]) if item.get("timestamp") else None


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return (content(one), counts(one)) == (content(other), counts(other))


def whole(value: object) -> int | None:
    """Read a count, written as a number or as text."""
    return int(str(value)) if str(value).isdigit() else None


def counts(item: dict[str, Any]) -> dict[str, int | None]:
    return {"like_count": whole(item.get("like_count")), "stats__saves": whole(item.get("stats", {}).get("saves"))}


def content(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item's content: without counts, without its image URL, and without null values."""
    rest = {name: value for name, value in item.items() if name not in ("like_count", "stats", "url")}
    saves = item.get("stats", {}).get("saves")
    return {**rest, "saves": None if whole(saves) is not None else saves}


def paths(item: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the table and the path of every field of an item and its children."""
    found = []
    for name, value in item.items():
        found.append(("media", f"/{name}"))
        if isinstance(value, dict):
            found += [("media", f"/{name}/{inner}") for inner in value]
    return found + [("media_children", f"/{name}") for child in children(item) for name in child]


def children(item: dict[str, Any]) -> list[dict[str, Any]]:
    return list(item.get("children", {}).get("data", ()))


def extra_type(kinds: set[str]) -> type[int] | type[str] | None:
    """Return the type of a column with values of these kinds; None for objects only, whose fields have columns."""
    if kinds <= {"dict"}:
        return None
    return int if kinds == {"int"} else str
