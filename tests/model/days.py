"""The expected contents of a warehouse after each day, computed in plain Python from the served data.

Times are moments: a page of a scan of a day. The test determines the time of each moment; the model only states which
values have the same time.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from models.schema.mapping_built_in import BUILT_IN
from tests.model import reading
from tests.model.reading import Item, lasting

Partition = tuple[str, str]
Key = tuple[str, str, str]

CATALOGUE: Partition = ("", "")
SURFACES = ("posts", "stories")
_PUBLISHED = next(column for column in BUILT_IN.columns if column.column == "published_at")
_COUNTS = [column for column in BUILT_IN.columns if column.reading == "count"]
_CANDIDATES = {path for column in BUILT_IN.columns for path in column.paths}
_COUNT_WORDS = {
    *BUILT_IN.count_words,
    *(path.rpartition("/")[2] for column in _COUNTS for path in column.paths),
}


class Moment(NamedTuple):
    """When a page of a scan was received, in one day."""

    day: int
    partition: Partition
    page: int


@dataclass
class Account:
    ig_username: str
    public_id: str
    status: str
    token_expired_since: Moment | None
    first_seen_at: Moment
    last_seen_at: Moment
    removed_at: Moment | None = None
    missing_since: Moment | None = None


@dataclass
class Media:
    """An item. `payload` is from its last change; `newest` may differ from it only in addresses of media."""

    payload: Item
    newest: Item
    first_seen_at: Moment
    last_seen_at: Moment
    changed_at: Moment
    content_changed_at: Moment
    removed_at: Moment | None = None
    removal: str | None = None


@dataclass
class Days:
    """All data seen so far, added day by day. `news` has the last day's new and changed items, `message` its counts."""

    page_size: int
    accounts: dict[str, Account] = field(default_factory=dict)
    statuses: dict[str, list[tuple[str, Moment, Moment | None]]] = field(default_factory=dict)
    media: dict[Key, Media] = field(default_factory=dict)
    superseded: list[tuple[Key, Moment, Moment, Item]] = field(default_factory=list)
    metrics: list[tuple[Key, str, int | None, Moment]] = field(default_factory=list)
    scans: dict[Partition, Moment] = field(default_factory=dict)
    news: list[Item] = field(default_factory=list)
    message: Counter[str] = field(default_factory=Counter)
    _missing: dict[Key, tuple[Moment, Moment]] = field(default_factory=dict)
    _counts: dict[Key, dict[str, int | None]] = field(default_factory=dict)

    def pass_(
        self, day: int, accounts: Sequence[Item], media: Sequence[Item], names: dict[str, str], now: datetime
    ) -> None:
        """Add a day: the data served, in order; the column names of fields by path; and the approximate time."""
        self.message = Counter()
        self.news = []
        self._catalogue(day, accounts)
        for account in accounts:
            if account["status"] == "active":
                for surface in SURFACES:
                    partition = (account["id"], surface)
                    items = [line["item"] for line in media if (line["account_id"], line["surface"]) == partition]
                    self._scan(day, partition, items, names, now)

    def _pages(
        self, day: int, partition: Partition, records: Sequence[Item], size: int
    ) -> Iterator[tuple[Item, Moment]]:
        for index, record in enumerate(records):
            yield record, Moment(day, partition, 1 + index // size)
        self.scans[partition] = Moment(day, partition, max(1, -(-len(records) // size)))

    def _catalogue(self, day: int, listed: Sequence[Item]) -> None:
        for record, moment in self._pages(day, CATALOGUE, listed, self.page_size):
            known = self.accounts.get(record["id"])
            periods = self.statuses.setdefault(record["id"], [])
            if not periods or periods[-1][0] != record["status"]:
                if periods:
                    periods[-1] = (*periods[-1][:2], moment)
                periods.append((record["status"], moment, None))
            self.accounts[record["id"]] = Account(
                record["ig_username"],
                record["public_id"],
                record["status"],
                periods[-1][1] if record["status"] == "token_expired" else None,
                known.first_seen_at if known else moment,
                moment,
            )
        for account_id, account in self.accounts.items():
            if account_id not in {record["id"] for record in listed} and account.removed_at is None:
                if account.missing_since is None:
                    account.missing_since = self.scans[CATALOGUE]
                    continue
                gone = account.missing_since
                account.removed_at, account.missing_since = gone, None
                periods = self.statuses[account_id]
                periods[-1] = (*periods[-1][:2], gone)
                periods.append(("removed", gone, None))

    def _scan(
        self, day: int, partition: Partition, items: Sequence[Item], names: dict[str, str], now: datetime
    ) -> None:
        known = {key: media for key, media in self.media.items() if key[:2] == partition and not media.removed_at}
        seen = set()
        for item, moment in self._pages(day, partition, items, self.page_size):
            key = (*partition, reading.media_id(item, BUILT_IN.media_id))
            seen.add(key)
            self.message["missing only once"] += self._missing.pop(key, None) is not None
            self._see(key, item, moment, names)
        end = self.scans[partition]
        for key in seen:
            self.media[key].last_seen_at = end
        for key in known.keys() - seen:
            media = known[key]
            if key in self._missing:
                media.removed_at, media.last_seen_at = self._missing.pop(key)
                media.removal = "removed"
            elif _has_ended(partition[1], media, now):
                media.removed_at, media.removal = end, "expired"
            else:
                self._missing[key] = end, media.last_seen_at
                self.message[f"{partition[1]} missing"] += 1
                continue
            self.message[media.removal] += 1

    def _see(self, key: Key, item: Item, moment: Moment, names: dict[str, str]) -> None:
        media = self.media.get(key)
        if media is None:
            self.media[key] = Media(item, item, moment, moment, moment, moment)
            self.message["added"] += 1
        else:
            returned, changed = media.removed_at is not None, lasting(media.payload) != lasting(item)
            self.message["returned" if returned else "changed"] += returned or changed
            media.removed_at = media.removal = None
            media.newest = item
            self.message["returned as it was"] += returned and not changed
            if not changed:
                return
            if content(media.payload) != content(item):
                self.superseded.append((key, media.content_changed_at, moment, media.payload))
                media.content_changed_at = moment
            media.payload, media.changed_at = item, moment
        self.news.append(item)
        self._count(key, item, moment, names)

    def _count(self, key: Key, item: Item, moment: Moment, names: dict[str, str]) -> None:
        output = self._counts.setdefault(key, {})
        now = counts(item, names)
        for metric in output.keys() | now.keys():
            if output.get(metric) != now.get(metric):
                self.metrics.append((key, metric, now.get(metric), moment))
        self._counts[key] = now


def _has_ended(surface: str, media: Media, now: datetime) -> bool:
    # An item without a publication time was first seen less than an hour ago, during this test.
    published = reading.canonical(media.payload, _PUBLISHED)
    return surface == "stories" and published is not None and now - published >= timedelta(hours=24)


def content(item: Item) -> str:
    """Return an item without its counts, as text."""
    return json.dumps(_uncounted(lasting(item)), sort_keys=True)


def _uncounted(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {name: _uncounted(inner) for name, inner in value.items() if not (_is_count(name) and _countable(inner))}
    return [_uncounted(inner) for inner in value] if isinstance(value, list) else value


@cache
def _is_count(name: str) -> bool:
    """Return whether a key is the name of a count, in snake_case or camelCase."""
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    return snake in _COUNT_WORDS or name in _COUNT_WORDS or bool(re.search(r"_counts?$|^counts?$", snake))


def _countable(value: object) -> bool:
    return value is None or (not isinstance(value, bool) and reading.count_of(value) is not None)


def counts(item: Item, names: dict[str, str]) -> dict[str, int | None]:
    """Return the counts of an item by column name: canonical columns, and inferred fields with the name of a count."""
    found = {column.column: reading.canonical(item, column) for column in _COUNTS}
    for path, value, kind in reading.leaves(item):
        key = path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        if path not in _CANDIDATES and kind not in ("object", "rows", "empty list") and _is_count(key):
            found[names[path]] = reading.count_of(value)
    return {name: count for name, count in found.items() if count is not None}
