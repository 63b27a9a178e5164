"""The expected accounts after scans of the catalogue, in plain Python, without gramhouse's own code."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

_HALF_A_DAY = timedelta(hours=12)


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

    `missing` has, for each missing account, the end of the first scan that missed it. `is_empty`: the last complete
    catalogue lists none of the accounts.
    """

    rows: dict[str, Account] = field(default_factory=dict)
    periods: list[list[Any]] = field(default_factory=list)
    missing: dict[str, datetime] = field(default_factory=dict)
    is_empty: bool = False

    def see(self, account_id: str, item: dict[str, str], scan: object, landed: int, at: datetime) -> None:
        """Process a listed account."""
        self.is_empty = False
        self.missing.pop(account_id, None)
        known, status = self.rows.get(account_id), item["status"]
        is_same = known is not None and known.removed_at is None and known.status == status
        if not is_same:
            self._begin(account_id, status, at)
        since = known.since if known and is_same else at
        first = known.first_seen_at if known else at
        name, public_id = item["ig_username"], item.get("public_id")
        self.rows[account_id] = Account(name, public_id, status, since, first, at, scan, landed)

    @property
    def lacks_many(self) -> bool:
        """Return whether a run must be partial, because a person should look at the missing accounts."""
        present = sum(row.removed_at is None for row in self.rows.values())
        return self.is_empty or 10 * len(self.missing) > present

    def see_unreadable(self, account_id: str, scan: object, landed: int, at: datetime) -> None:
        """Process a known account that was listed by a rejected record."""
        self.see(account_id, vars(self.rows[account_id]), scan, landed, at)

    def _begin(self, account_id: str, status: str, at: datetime) -> None:
        for period in self.periods:
            if period[0] == account_id and period[3] is None:
                period[3] = at
        self.periods.append([account_id, status, at, None])

    def end(self, *, began: int, started_at: datetime, at: datetime) -> int:
        """Complete a scan, whose first page was the `began`th to land; return the number of removed accounts.

        An account is removed if a scan that begins half a day after the end of the first that missed it misses it, too.
        An empty catalogue decides nothing.
        """
        gone = 0
        present = [row for row in self.rows.values() if row.removed_at is None]
        self.is_empty = bool(present) and all(row.landed < began for row in present)
        if not any(row.landed >= began for row in self.rows.values()):
            return gone
        for one, row in self.rows.items():
            if row.removed_at is not None or row.landed >= began:
                continue
            since = self.missing.get(one)
            self.missing[one] = min(since or at, at)
            if since is not None and started_at - since >= _HALF_A_DAY:
                row.removed_at = self.missing.pop(one)
                self._begin(one, "removed", row.removed_at)
                gone += 1
        return gone
