"""The tables of accounts and media after pages have landed and scans have closed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.harness.oracle.reading import Item, canonical, content, counts, published

# Account and surface, both empty for the catalogue; with an item's id.
Partition = tuple[str, str]
Key = tuple[str, str, str]
CATALOGUE: Partition = ("", "")
_DAY = timedelta(hours=24)
# After the first scan that misses an item, or an account, another may confirm its removal.
_CONFIRM, _CONFIRM_ACCOUNT = timedelta(hours=1), timedelta(hours=12)
# A run removes so many by itself, or a tenth of what is listed: of all, or of an account with more than so many items.
_UNASKED, _SMALL = 10, 20


@dataclass(kw_only=True)
class Scan:
    """A scan, whose first page was the `began`th of all to land; `following` is the cursor of the next page.

    Process `process` landed its last page so far, and `ended_in` closed it. It `decides` unless it has a record without
    a readable id, or items of one id that differ in time or permalink. `read_to`: it has read posts down to this time,
    apart from the first three, which may be pinned.
    """

    started: datetime
    process: int
    began: int = 0
    items: int = 0
    rejected: int = 0
    decides: bool = True
    read_to: datetime | None = None
    following: str | None = None
    cursors: set[str] = field(default_factory=set)
    recent: bool = False
    closed: bool = False
    restarts: bool = False
    abandoned: bool = False
    ended_in: int = -1


@dataclass(kw_only=True)
class Listed:
    """A row that scans list or miss: `missed_at` is the end of the first scan that missed it.

    `is_confirmed`: another scan, late enough, missed it too. The `seen`th page of all listed it last.
    """

    first_seen_at: datetime
    last_seen_at: datetime
    seen: int
    missed_at: datetime | None = None
    is_confirmed: bool = False
    removed_at: datetime | None = None

    def see(self, landed: int, at: datetime) -> bool:
        """List a row in a page; return whether it was removed. Any sighting clears what scans missed."""
        is_gone = self.removed_at is not None
        self.seen, self.last_seen_at = landed, at
        self.missed_at, self.is_confirmed, self.removed_at = None, False, None
        return is_gone

    def miss(self, scan: Scan, at: datetime, confirm: timedelta) -> None:
        """THE RULE OF REMOVALS: the first scan marks what it missed, one that began late enough confirms it."""
        if self.missed_at is None:
            self.missed_at = at
        elif scan.started - self.missed_at >= confirm:
            self.is_confirmed = True


def _is_too_many(number: int, listed: int) -> bool:
    return number > _UNASKED and 10 * number > listed


def _remove(rows: Iterable[Listed]) -> int:
    """Remove the confirmed rows; return their number."""
    gone = [row for row in rows if row.removed_at is None and row.is_confirmed]
    for row in gone:
        row.removed_at, row.is_confirmed = row.missed_at, False
    return len(gone)


@dataclass(kw_only=True)
class Account(Listed):
    """An account as last listed; it has had its status since `since`."""

    ig_username: str
    public_id: str
    status: str
    since: datetime

    @property
    def token_expired_since(self) -> datetime | None:
        return self.since if self.status == "token_expired" else None

    @property
    def missing_since(self) -> datetime | None:
        return self.missed_at if self.removed_at is None else None


@dataclass
class Accounts:
    """All accounts ever listed. `periods` are rows of account, status, from and to.

    The last complete catalogue began with page `began`, and had so many `items`.
    """

    rows: dict[str, Account] = field(default_factory=dict)
    periods: list[tuple[Any, ...]] = field(default_factory=list)
    began: int = 0
    items: int | None = None

    def see(self, account_id: str, item: dict[str, Any], scan: Scan, landed: int, at: datetime) -> None:
        """Process a listed account. An unknown status is kept; of several records in one catalogue the first counts."""
        row, names = self.rows.get(account_id), {name: item[name] for name in ("ig_username", "public_id", "status")}
        if row is None:
            self.rows[account_id] = Account(**names, first_seen_at=at, last_seen_at=at, seen=landed, since=at)
            self._begin(account_id, item["status"], at)
            return
        before, is_repeated = row.status, row.seen >= scan.began
        if not is_repeated:
            vars(row).update(names)
        if row.see(landed, at) or row.status != before:
            row.since = at
            self._begin(account_id, row.status, at)

    @property
    def lacks_many(self) -> bool:
        """Whether a run must be partial, because a person should look at the accounts that are not listed."""
        rows = self.present().values()
        missing = [row for row in rows if row.seen < self.began]
        undecided = any(row.missed_at is None for row in missing)
        return self.items is not None and (self.items == 0 or undecided or 10 * len(missing) > len(rows))

    def present(self) -> dict[str, Account]:
        """Return the accounts that are not removed."""
        return {one: row for one, row in self.rows.items() if row.removed_at is None}

    def _begin(self, account_id: str, status: str, at: datetime | None) -> None:
        """End an account's period, and begin another one."""
        last = (account_id, None)
        self.periods = [(*each[:3], at) if (each[0], each[3]) == last else each for each in self.periods]
        self.periods.append((account_id, status, at, None))

    def end(self, scan: Scan, at: datetime) -> None:
        """Complete a scan. An empty catalogue decides nothing."""
        self.began, self.items = scan.began, scan.items
        if scan.decides and any(row.seen >= scan.began for row in self.rows.values()):
            for row in self.present().values():
                if row.seen < scan.began:
                    row.miss(scan, at, _CONFIRM_ACCOUNT)

    def remove(self, at: datetime | None, *, accepts: bool) -> int:
        """End a run; return how many accounts it removed. With `accepts`, all that the last catalogue did not list."""
        rows = self.present().values()
        if accepts and self.items is not None:
            for row in rows:
                if row.missed_at is not None or row.seen < self.began:
                    row.missed_at, row.is_confirmed = row.missed_at or at, True
        elif _is_too_many(sum(row.is_confirmed for row in rows), len(rows)):
            return 0
        for one, row in self.present().items():
            if row.is_confirmed:
                self._begin(one, "removed", row.missed_at)
        return _remove(rows)


@dataclass(kw_only=True)
class Row(Listed):
    """An item, as `payload` says when it last changed, and `shown` when it was last listed."""

    payload: Item
    shown: Item
    changed_at: datetime
    content_changed_at: datetime
    removal: str | None = None


@dataclass
class Media:
    """All items ever listed. `closed` are the ends of the last full scan and of the last recent one since.

    `began` and `ended` are the first and the last landing of the last closed scan.
    """

    rows: dict[Key, Row] = field(default_factory=dict)
    superseded: list[tuple[Key, datetime, datetime, Item]] = field(default_factory=list)
    changes: list[tuple[Key, Item, datetime]] = field(default_factory=list)
    undecided: dict[Partition, datetime] = field(default_factory=dict)
    contradictions: list[tuple[Partition, int]] = field(default_factory=list)
    closed: dict[Partition, tuple[datetime, datetime | None]] = field(default_factory=dict)
    ended: dict[Partition, int] = field(default_factory=dict)
    began: dict[Partition, int] = field(default_factory=dict)

    def see(self, key: Key, payload: Item, scan: Scan, landed: int, at: datetime) -> Sequence[str]:
        """Process a listed item; return the counts it belongs to: added, or changed and returned."""
        row = self.rows.get(key)
        if row is None:
            first: dict[str, Any] = {"first_seen_at": at, "last_seen_at": at, "seen": landed}
            self.rows[key] = Row(payload=payload, shown=payload, changed_at=at, content_changed_at=at, **first)
            self.changes.append((key, payload, at))
            return ["added"]
        if row.seen >= scan.began and _identity(row.shown) != _identity(payload):
            scan.decides = False
            self.contradictions.append((key[:2], landed))
        is_gone, is_content = row.see(landed, at), content(row.payload) != content(payload)
        is_changed = is_content or counts(row.payload) != counts(payload)
        row.shown, row.removal = payload, None
        if is_content:
            self.superseded.append((key, row.content_changed_at, at, row.payload))
            row.content_changed_at = at
        if is_changed:
            row.payload, row.changed_at = payload, at
            self.changes.append((key, payload, at))
        return ["returned"] * is_gone + ["changed"] * is_changed

    def end(self, partition: Partition, landed: int, scan: Scan, at: datetime) -> int:
        """Close a scan: what it covered and did not list is missed. Return the number of stories that expired."""
        missed = [
            row
            for key, row in self.rows.items()
            if key[:2] == partition and row.removed_at is None and row.seen < scan.began
            # A recent scan covers posts that were published after the last one that it read.
            if not scan.recent or ((when := published(row.shown)) and when > (scan.read_to or when))
        ]
        expired = 0
        for row in missed if scan.decides else ():
            # A story that was a day old when it was first missed has ended.
            is_old = at - (published(row.shown) or row.first_seen_at) >= _DAY
            if partition[1] == "stories" and row.missed_at is None and is_old:
                row.missed_at = row.removed_at = at
                row.removal, expired = "expired", expired + 1
            else:
                row.miss(scan, at, _CONFIRM)
        if not scan.decides and (missed or partition == CATALOGUE):
            self.undecided.setdefault(partition, at)
        elif not scan.recent:
            self.undecided.pop(partition, None)
        self.closed[partition] = (self.closed[partition][0], at) if scan.recent else (at, None)
        self.began[partition], self.ended[partition] = scan.began, landed
        return expired

    def _too_many(self, what: str) -> set[str]:
        """Return the accounts of which so many items are missed, or confirmed, that a run does not remove them."""
        rows = [(key[0], row) for key, row in self.rows.items() if row.removed_at is None]
        listed = Counter(account for account, _ in rows)
        found = Counter(account for account, row in rows if getattr(row, what))
        if _is_too_many(found.total(), listed.total()):
            return set(listed)
        return {one for one in found if listed[one] > _SMALL and _is_too_many(found[one], listed[one])}

    def remove(self, *, accepts: bool) -> tuple[int, bool]:
        """THE RULE OF LITTLE: end a run. Return how many items it removed, and whether a person should look."""
        kept = set() if accepts else self._too_many("is_confirmed")
        gone = [row for key, row in self.rows.items() if row.is_confirmed and key[0] not in kept]
        for row in gone:
            row.removal = "removed"
        return _remove(gone), bool(self._too_many("missed_at"))

    @property
    def contradicts_itself(self) -> bool:
        """Whether a last closed scan listed an id several times, with other values."""
        return any(
            self.began.get(one, landed + 1) <= landed <= self.ended.get(one, 0) for one, landed in self.contradictions
        )


def _identity(item: Item) -> tuple[object, object]:
    return published(item), canonical(item, "permalink")
