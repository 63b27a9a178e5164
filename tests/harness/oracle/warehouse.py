"""The tables after pages have landed, scans have closed and runs have ended."""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.harness.oracle.reading import (
    ACCOUNT,
    Item,
    canonical,
    content,
    counts,
    id_of,
    is_account,
    is_item,
    parsed,
    published,
)

# Account and surface, both empty for the catalogue; with the id of an item, or of an account.
Partition = tuple[str, str]
Key = tuple[str, str, str]
CATALOGUE: Partition = ("", "")
_DAY = timedelta(hours=24)
# After the first scan that misses an item, or an account, another may confirm its removal.
_CONFIRM, _CONFIRM_ACCOUNT = timedelta(hours=1), timedelta(hours=12)
# A run removes so many by itself, or a tenth of what is listed: of all, or of an account with more than so many items.
_UNASKED, _SMALL = 10, 20
# The first posts of a scan may be pinned.
_PINS = 3
_TIMES = ("first_seen_at", "last_seen_at", "changed_at", "content_changed_at")


@dataclass(kw_only=True)
class Scan:
    """A scan, whose first page was the `began`th of all to land; `following` is the cursor of the next page.

    Process `process` landed its last page so far, and `ended_in` closed it. It has `found` these items, and `decides`
    unless it has a record without a readable id, or items of one id that differ in time or permalink. `read_to`: it has
    read posts down to this time, apart from the first three, which may be pinned.
    """

    started: datetime
    process: int
    began: int = 0
    items: int = 0
    rejected: int = 0
    found: set[Key] = field(default_factory=set)
    decides: bool = True
    had_expired_token: bool = False
    read_to: datetime | None = None
    following: str | None = None
    cursors: set[str] = field(default_factory=set)
    recent: bool = False
    closed: bool = False
    restarts: bool = False
    abandoned: bool = False
    ended_in: int = -1


@dataclass(kw_only=True)
class Row:
    """An item or account, as `payload` says when it last changed, and `shown` when it was last listed.

    The `present`th page of all listed it first, or again after its removal, and the `seen`th last. `missed_at` is the
    end of the first scan that missed it since; another one, late enough, `is_confirmed` to have missed it too. The
    content of an account is its status. An item was `changed_in` this process last: new, changed, removed or returned.
    """

    payload: Item
    shown: Item
    present: int
    seen: int
    first_seen_at: datetime
    last_seen_at: datetime
    changed_at: datetime
    content_changed_at: datetime
    missed_at: datetime | None = None
    is_confirmed: bool = False
    removed_at: datetime | None = None
    removal: str | None = None
    changed_in: int = 0


def _is_too_many(number: int, listed: int) -> bool:
    return number > _UNASKED and 10 * number > listed


@dataclass
class Warehouse:
    """The state after all landed pages, in the order of landing. `counts` are those of each process.

    `pages` are the bodies of pages that landed, by the time of arrival. `closed` are the ends of the last full scan of
    a partition and of the last recent one since; `began` and `ended` the first and the last landing of the last of
    them, and `listed` the number of records of the last full catalogue. `periods` are rows of account, status, from and
    to. `lacks_many`: as the last run ended, so much was missing that a person should look.
    """

    rows: dict[Key, Row] = field(default_factory=dict)
    periods: list[tuple[Any, ...]] = field(default_factory=list)
    superseded: list[tuple[Key, datetime, datetime, Item]] = field(default_factory=list)
    changes: list[tuple[Key, Item, datetime]] = field(default_factory=list)
    contradictions: list[tuple[Partition, int]] = field(default_factory=list)
    undecided: dict[Partition, datetime] = field(default_factory=dict)
    closed: dict[Partition, tuple[datetime, datetime | None]] = field(default_factory=dict)
    began: dict[Partition, int] = field(default_factory=dict)
    ended: dict[Partition, int] = field(default_factory=dict)
    listed: int = 0
    landed: int = 0
    lacks_many: bool = False
    quarantine: dict[tuple[Partition, str], tuple[str, datetime, datetime]] = field(default_factory=dict)
    counts: dict[int, Counter[str]] = field(default_factory=dict)
    pages: dict[datetime, list[bytes]] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)

    @property
    def accounts(self) -> dict[str, Row]:
        """All accounts ever listed."""
        return {key[2]: row for key, row in self.rows.items() if key[:2] == CATALOGUE}

    @property
    def media(self) -> dict[Key, Row]:
        """All items ever listed."""
        return {key: row for key, row in self.rows.items() if key[:2] != CATALOGUE}

    def land(
        self, process: int, scan: Scan, partition: Partition, body: bytes, at: datetime, *, has_cursor: bool = True
    ) -> None:
        """Land a page that a process received at time `at`; with the last page, the scan is closed."""
        self.landed += 1
        scan.began = scan.began or self.landed
        self.pages.setdefault(at, []).append(body)
        page, count = parsed(body), self.counts.setdefault(process, Counter())
        # Records of forgotten accounts are removed before a page lands.
        items = [one for one in page["items"] if not (isinstance(one, dict) and one.get("id") in self.forgotten)]
        count.update(pages=1, items=len(items))
        for item in items:
            scan.items += 1
            if partition == CATALOGUE:
                self._list_account(scan, item, at)
            else:
                count.update(self._list_item(process, scan, partition, item, at))
        if not has_cursor or not (page.get("next_cursor") is None or scan.recent):
            return
        # A scan that rejected most records has seen too little: it is abandoned instead.
        if 2 * scan.rejected > scan.items:
            scan.abandoned = True
            return
        scan.closed, scan.ended_in = True, process
        # A scan decides nothing if another one was closed since it began.
        if self.ended.get(partition, 0) <= scan.began:
            count["expired"] += self._close(process, partition, scan, at)

    def _list_account(self, scan: Scan, item: Any, at: datetime) -> None:  # noqa: ANN401 - any JSON
        """List a record of the catalogue; of several records of an account the first counts."""
        if not is_account(item):
            self._reject(scan, CATALOGUE, item, at)
            account_id = item.get("id") if isinstance(item, dict) else None
            if not (isinstance(account_id, str) and ACCOUNT["id"].fullmatch(account_id)):
                scan.decides = False
            # A malformed record of a known account counts as that account.
            if (known := self.rows.get((*CATALOGUE, str(account_id)))) is None:
                return
            item = known.shown
        key = (*CATALOGUE, item["id"])
        before = self.rows.get(key)
        if before is not None and before.seen >= scan.began:
            if before.shown["status"] != item["status"]:
                self.contradictions.append((CATALOGUE, self.landed))
            item = before.shown
        was = before and before.shown["status"]
        row, is_gone = self._see(key, item, at)
        if is_gone or was != item["status"]:
            row.content_changed_at = at
            self._begin_period(key[2], item["status"], at)

    def _list_item(self, process: int, scan: Scan, partition: Partition, item: Item, at: datetime) -> Iterable[str]:
        """List an item; return the counts it belongs to: added, or changed and returned."""
        media_id = id_of(item)
        if media_id is None or not is_item(item):
            scan.decides = False
            self._reject(scan, partition, item, at)
            return []
        if scan.items > _PINS and (when := published(item)):
            scan.read_to = min(when, scan.read_to or when)
        key = (*partition, media_id)
        before = self.rows.get(key)
        if before is not None and before.seen >= scan.began and _identity(before.shown) != _identity(item):
            scan.decides = False
            self.contradictions.append((partition, self.landed))
        row, is_gone = self._see(key, item, at)
        scan.found.add(key)
        is_content = content(row.payload) != content(item)
        is_changed = is_content or counts(row.payload) != counts(item)
        if is_content:
            self.superseded.append((key, row.content_changed_at, at, row.payload))
            row.content_changed_at = at
        if is_changed:
            row.payload, row.changed_at = item, at
        if is_changed or before is None:
            self.changes.append((key, item, at))
        if is_changed or before is None or is_gone:
            row.changed_in = process
        return ["added"] * (before is None) + ["returned"] * is_gone + ["changed"] * is_changed

    def _see(self, key: Key, shown: Item, at: datetime) -> tuple[Row, bool]:
        """Return the row that a page lists, and whether it was removed. Any sighting clears what scans missed."""
        times: dict[str, Any] = dict.fromkeys(_TIMES, at)
        row = self.rows.setdefault(key, Row(payload=shown, shown=shown, present=self.landed, seen=self.landed, **times))
        is_gone = row.removed_at is not None
        row.present = self.landed if is_gone else row.present
        row.shown, row.seen, row.last_seen_at = shown, self.landed, at
        row.missed_at, row.is_confirmed, row.removed_at, row.removal = None, False, None, None
        return row, is_gone

    def _begin_period(self, account_id: str, status: str, at: datetime | None) -> None:
        """End an account's period, and begin another one."""
        last = (account_id, None)
        self.periods = [(*each[:3], at) if (each[0], each[3]) == last else each for each in self.periods]
        self.periods.append((account_id, status, at, None))

    def _reject(self, scan: Scan, partition: Partition, item: Any, at: datetime) -> None:  # noqa: ANN401 - any JSON
        """Put a record into quarantine, unless it is there already: an item by its content, if that can be read."""
        scan.rejected += 1
        is_known_by_content = partition != CATALOGUE and is_item(item)
        text = json.dumps(item, sort_keys=True)
        self.keep_rejected(partition, content(item) if is_known_by_content else text, text, at)

    def keep_rejected(self, partition: Partition, key: str, text: str, at: datetime) -> None:
        """Put a text into quarantine, unless one with this key is there; it was last received at a time."""
        text, first, _ = self.quarantine.get((partition, key), (text, at, at))
        self.quarantine[partition, key] = text, first, at

    def _close(self, process: int, partition: Partition, scan: Scan, at: datetime) -> int:
        """Close a scan: what it covered and did not list is missed. Return the number of stories that expired."""
        rows = [row for key, row in self.rows.items() if key[:2] == partition]
        missed = [
            row
            for row in rows
            if row.removed_at is None and row.seen < scan.began
            # A recent scan covers posts that were published after the last one that it read.
            if not scan.recent or ((when := published(row.shown)) and when > (scan.read_to or when))
        ]
        # An empty catalogue decides nothing.
        is_empty = partition == CATALOGUE and not any(row.seen >= scan.began for row in rows)
        expired = 0
        decides = scan.decides and not scan.had_expired_token and not is_empty
        for row in missed if decides else ():
            # A story that was a day old when it was first missed has ended.
            is_old = at - (published(row.shown) or row.first_seen_at) >= _DAY
            if partition[1] == "stories" and row.missed_at is None and is_old:
                row.missed_at = row.removed_at = at
                row.removal, row.changed_in, expired = "expired", process, expired + 1
            else:
                _miss(row, scan, at, _CONFIRM_ACCOUNT if partition == CATALOGUE else _CONFIRM)
        if not scan.decides and (missed or partition == CATALOGUE):
            self.undecided.setdefault(partition, at)
        elif not (scan.recent or scan.had_expired_token):
            self.undecided.pop(partition, None)
        self.closed[partition] = (self.closed[partition][0], at) if scan.recent else (at, None)
        self.began[partition], self.ended[partition] = scan.began, self.landed
        self.listed = scan.items if partition == CATALOGUE else self.listed
        return expired

    def _unlisted(self) -> list[Row]:
        """Return the accounts that the last full catalogue did not list, and that are not removed."""
        began = self.began.get(CATALOGUE, 0)
        return [row for row in self.accounts.values() if row.removed_at is None and row.seen < began]

    def _too_many(self, mark: str) -> Collection[str]:
        """Return the accounts of which so many items have this mark that a run does not remove them.

        "" is among them if so many accounts have it.
        """
        present = [(key[0], row) for key, row in self.rows.items() if row.removed_at is None]
        listed = Counter(account for account, _ in present)
        found = Counter(account for account, row in present if getattr(row, mark))
        if _is_too_many(found.total() - found[""], listed.total() - listed[""]):
            return {one for one in listed if one or _is_too_many(found[""], listed[""])}
        return {one for one in found if (listed[one] > _SMALL or not one) and _is_too_many(found[one], listed[one])}

    def end_run(self, process: int, *, accepts: bool, lists: bool) -> None:
        """THE RULE OF LITTLE: remove what two scans missed; `lists`: the run lists the catalogue."""
        if accepts and CATALOGUE in self.closed:
            for row in self._unlisted():
                row.missed_at, row.is_confirmed = row.missed_at or self.closed[CATALOGUE][0], True
        kept, count = () if accepts else self._too_many("is_confirmed"), self.counts.setdefault(process, Counter())
        for key, row in self.rows.items():
            if row.is_confirmed and key[0] not in kept:
                row.removed_at, row.removal, row.is_confirmed = row.missed_at, "removed", False
                row.changed_in = process
                count["removed" if key[0] else "accounts_removed"] += 1
                if not key[0]:
                    self._begin_period(key[2], "removed", row.missed_at)
        has_too_many = any(self._too_many("missed_at"))
        contradicts_itself = any(
            self.began.get(one, landed + 1) <= landed <= self.ended.get(one, 0) for one, landed in self.contradictions
        )
        self.lacks_many = has_too_many or contradicts_itself or (lists and self._lacks_accounts())

    def _lacks_accounts(self) -> bool:
        """Return whether a run must be partial, because a person should look at the accounts that are not listed."""
        missing, present = self._unlisted(), [row for row in self.accounts.values() if row.removed_at is None]
        is_undecided = any(row.missed_at is None for row in missing)
        return CATALOGUE in self.closed and (not self.listed or is_undecided or 10 * len(missing) > len(present))

    def forget(self, account: str) -> None:
        """Erase an account. The counts of runs stay."""
        self.forgotten.add(account)
        for name in ("rows", "closed", "began", "ended", "undecided"):
            kept = {key: each for key, each in getattr(self, name).items() if account not in key}
            setattr(self, name, kept)
        self.periods = [each for each in self.periods if each[0] != account]
        self.superseded = [each for each in self.superseded if account not in each[0]]
        self.changes = [each for each in self.changes if account not in each[0]]


def _miss(row: Row, scan: Scan, at: datetime, confirm: timedelta) -> None:
    """THE RULE OF REMOVALS: the first scan marks what it missed, one that began late enough confirms it."""
    if row.missed_at is None:
        row.missed_at = at
    elif scan.started - row.missed_at >= confirm:
        row.is_confirmed = True


def _identity(item: Item) -> tuple[object, object]:
    return published(item), canonical(item, "permalink")
