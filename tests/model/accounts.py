"""The expected accounts after scans of the catalogue, in plain Python, without gramhouse's own code."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

_HOUR, _HALF_A_DAY = timedelta(hours=1), timedelta(hours=12)


@dataclass
class Account:
    """An account as last listed, in the `landed`th page of all; it has had its status since `since`."""

    ig_username: str
    public_id: str | None
    status: str
    since: datetime
    first_seen_at: datetime
    last_seen_at: datetime
    scan: object
    landed: int
    removed_at: datetime | None = None

    @property
    def token_expired_since(self) -> datetime | None:
        return self.since if self.status == "token_expired" else None


@dataclass
class Accounts:
    """All accounts ever listed. `periods` are rows of account, status, from and to.

    `missing` has, for each missing account, since when, and the start of the first scan that missed it and listed
    others.
    """

    rows: dict[str, Account] = field(default_factory=dict)
    periods: list[list[Any]] = field(default_factory=list)
    missing: dict[str, tuple[datetime, datetime | None]] = field(default_factory=dict)

    def see(self, account_id: str, item: dict[str, str], scan: object, landed: int, at: datetime) -> None:
        """Process a listed account."""
        self.missing.pop(account_id, None)
        known, status = self.rows.get(account_id), item["status"]
        is_same = known is not None and known.removed_at is None and known.status == status
        if not is_same:
            self._begin(account_id, status, at)
        since = known.since if known and is_same else at
        first = known.first_seen_at if known else at
        name, public_id = item["ig_username"], item.get("public_id")
        self.rows[account_id] = Account(name, public_id, status, since, first, at, scan, landed)

    def see_unreadable(self, account_id: str, scan: object, landed: int, at: datetime) -> None:
        """Process a known account that was listed by a rejected record."""
        self.see(account_id, vars(self.rows[account_id]), scan, landed, at)

    def _begin(self, account_id: str, status: str, at: datetime) -> None:
        for period in self.periods:
            if period[0] == account_id and period[3] is None:
                period[3] = at
        self.periods.append([account_id, status, at, None])

    def end(self, scan: object, *, began: int, started_at: datetime, at: datetime) -> int:
        """Complete a scan, whose first page was the `began`th to land; return the number of removed accounts.

        A few accounts are removed at once; many only when a scan half a day later, which lists others, misses them.
        """
        present = {one: row for one, row in self.rows.items() if row.removed_at is None}
        lists_any = any(row.scan == scan for row in self.rows.values())
        missed = {one: self.missing.get(one, (at, None)) for one, row in present.items() if row.landed < began}
        sure = {
            one
            for one, (since, begun) in missed.items()
            if lists_any and begun and started_at - begun >= _HALF_A_DAY and started_at - since >= _HOUR
        }
        known = sum(row.first_seen_at < started_at or one in missed for one, row in present.items()) - len(sure)
        unsure = len(missed) - len(sure)
        if unsure == known or (unsure > 1 and 10 * unsure > known):
            waiting = {one: missing for one, missing in missed.items() if one not in sure}
        else:
            waiting, sure = {}, set(missed)
        self.missing = {
            one: (since, begun or (started_at if lists_any else None)) for one, (since, begun) in waiting.items()
        }
        for one in sure:
            present[one].removed_at = missed[one][0]
            self._begin(one, "removed", missed[one][0])
        return len(sure)
